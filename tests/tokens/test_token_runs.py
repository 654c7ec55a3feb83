"""Runs over token shards keep the promises of every run: order, shares, ranks, resuming."""

import pickle
from collections import Counter
from itertools import chain, islice

import numpy as np
import pytest
from effort import some
from token_shards import EOS, PAD, laid_out, lengths_of, numbered, write_shards

import duckplets as dp
from duckplets.runs import state

TEXTS = {
    "alpha": numbered(lengths_of(420, 1)),
    "bravo": numbered(lengths_of(150, 2)),
    "charlie": numbered(lengths_of(40, 3)),
}
MIXTURE = dp.Mixture(
    {"alpha": 0.5, "bravo": 0.3, "charlie": 0.2},
    phases=[dp.Phase(9, {"bravo": 2.0}, lr_scale=0.5), dp.Phase(20, {"alpha": 0})],
)
HOWS = {
    "packed": {"pack": True},
    "packed without ends": {"pack": True, "eos": None},
    "records": {},
    "buckets": {"by_bucket": True},
    "packed buckets": {"by_bucket": True, "pack": True},
}
COMMON = {"seq_length": 24, "seed": 5, "mixture": MIXTURE}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("tokens") / "shards"
    return write_shards(path, {"train": TEXTS, "test": {"alpha": TEXTS["charlie"]}})


@pytest.fixture
def shards(folder):
    with dp.TokenShards(folder) as shards:
        yield shards


def plain(batch):
    found = batch.to_pydict()
    return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in found.items()}


def all_of(batches):
    return [plain(batch) for batch in batches]


def test_an_epoch_of_packed_rows_has_every_token_once(shards):
    how = {"pack": True, "seq_length": 24, "batch_size": 7}
    with shards.sampler(**how, epochs=1) as sampler:
        weights = {stream.source: len(stream) for stream in sampler.planner.streams}
    rows = {}
    visits = Counter[tuple[str, int]]()
    for batch in shards.sampler(mixture=weights, **how, epochs=3):
        lengths = batch["attention_mask"].sum(1)
        for source, row, ids, length in zip(
            batch["source"], batch["row"].tolist(), batch["input_ids"], lengths, strict=True
        ):
            kept = ids[:length].tolist()
            assert rows.setdefault((source, row), kept) == kept
            visits[source, row] += 1
    assert abs(min(visits.values()) - 3) <= 1  # shares are of prefixes: off by less than a few
    for name, texts in TEXTS.items():
        of = [rows[name, row] for row in range(weights[name])]
        laid = [[*texts[n], EOS] for n in laid_out(texts)]
        assert list(chain(*of)) == list(chain(*laid))


def test_the_arrays_of_a_batch_tell_texts_apart(shards):
    for how in HOWS.values():
        batch = next(shards.sampler(**COMMON, **how, batch_size=32))
        names = ("input_ids", "attention_mask", "document_ids", "position_ids")
        ids, mask, documents, positions = arrays = [batch[name] for name in names]
        assert {(a.shape, a.dtype) for a in arrays} == {((32, ids.shape[1]), np.dtype(np.int32))}
        ends = (ids == EOS) & (mask == 1)
        if how.get("eos", EOS) is not None:
            expected = np.cumsum(ends, axis=1) - ends
            assert (np.where(mask, expected, -1) == documents).all()
        assert (documents[:, 0] == 0).all()
        fresh = np.diff(documents, axis=1, prepend=-1) != 0
        assert ((positions == 0) == (fresh | (mask == 0))).all()
        assert (np.diff(positions, axis=1)[~fresh[:, 1:] & (mask[:, 1:] == 1)] == 1).all()
        assert ((mask == 0) == (documents == -1)).all()
        assert (ids[mask == 0] == PAD).all()


@pytest.mark.parametrize("pack", [True, False])
def test_source_bucket_and_row_name_one_row(shards, pack):
    run = shards.sampler(pack=pack, by_bucket=True, seq_length=24, batch_size=8, epochs=2)
    tokens = {}
    widths = set()
    for batch in run:
        assert len(set(batch["bucket"].tolist())) == 1
        widths.add(width := batch["input_ids"].shape[1])
        assert pack or (batch["attention_mask"].sum(1) > {8: 0, 16: 8, 24: 16}[width]).all()
        for source, bucket, row, ids in zip(
            *(batch[name] for name in ("source", "bucket", "row", "input_ids")), strict=True
        ):
            key = source, int(bucket), int(row)
            assert tokens.setdefault(key, ids.tolist()) == ids.tolist()
    assert pack or widths == {8, 16, 24}
    assert len({key[::2] for key in tokens}) < len(tokens)  # without it several are of one name
    assert "bucket" in pickle.loads(pickle.dumps(batch))
    assert "bucket" not in next(shards.sampler(seq_length=24))


def test_a_batch_reads_by_row_as_it_does_by_column(shards):
    batch = next(shards.sampler(seq_length=24, batch_size=8))
    rows = batch.to_pylist()
    assert [row["input_ids"] for row in rows] == batch["input_ids"].tolist()
    assert (rows[0], rows[:3]) == (batch[0], batch[:3])


def test_record_ids_are_those_of_the_texts_of_a_row(shards):
    run = shards.sampler(seq_length=40, batch_size=16)
    batch, served = next(run), run.served(0, 16).to_pylist()
    for ids, mask, row in zip(batch["input_ids"], batch["attention_mask"], served, strict=True):
        (record,) = row["record_ids"]
        source, number = record.split("/")
        assert ids[mask == 1].tolist() == TEXTS[source][int(number)]


def test_a_run_is_saved_beside_the_folder_and_found_by_its_path(shards, monkeypatch):
    shards.path.with_name("shards.state.duckdb").unlink(missing_ok=True)
    run = shards.sampler(**COMMON, batch_size=8, run="beside")
    alone = all_of(islice(run, 6))
    run.move(24)
    path = run.save(tag="third")
    assert path == shards.path.with_name("shards.state.duckdb")
    assert [(c["run"], c["kind"], c["step"]) for c in state.cursors(path)] == [
        ("beside", "tokens", 3)
    ]
    with dp.resume(shards.path, "beside", "third") as resumed:
        assert all_of(islice(resumed, 3)) == alone[3:]
    monkeypatch.chdir(shards.path)
    with dp.resume(".", "beside", "third") as resumed, dp.TokenShards(".") as here:
        assert all_of(islice(resumed, 3)) == alone[3:]
        assert all_of(islice(here.resume("beside", "third"), 3)) == alone[3:]
    other = shards.sampler(**COMMON, batch_size=8, run="other")
    other.load_state_dict(run.state_dict())
    assert plain(next(other)) == alone[3]


def test_what_does_not_fit_is_refused_by_name(shards, folder, tmp_path):
    path = tmp_path / "s.duckdb"
    run = shards.sampler(**COMMON, pack=True, state=path)
    next(run)
    run.save()
    (note,) = shards.sampler(**COMMON, pack=True, state=path).notes[:1]
    assert "'default' was saved at step 1; this run begins at step 0" in note
    wrong = shards.sampler(**{**COMMON, "seq_length": 25}, pack=True, state=path)
    with pytest.raises(dp.StateMismatchError, match="seq_length \\(saved: 24, now: 25\\)"):
        wrong.save()
    with pytest.raises(dp.StateMismatchError, match="from step 0"):
        shards.resume(state=path, mixture=dp.Mixture({"alpha": 9}, omitted=1))
    later = dp.Mixture(MIXTURE.weights, phases=[*MIXTURE.phases, dp.Phase(30, {"alpha": 4})])
    assert shards.resume(state=path, mixture=later).changed_from == 30 * 8
    with pytest.raises(dp.SamplerError, match="seq_lenght"):
        shards.resume(state=path, seq_lenght=4)
    for name, value in {"version": "newest", "threads": 1, "statement_timeout": 5}.items():
        with pytest.raises(dp.SamplerError, match=f"{name}=.*token shards have no versions"):
            dp.resume(folder, state=path, **{name: value})
    elsewhere = write_shards(tmp_path / "other", {"train": {"alpha": TEXTS["bravo"]}})
    with pytest.raises(dp.StateMismatchError, match="shards"):
        dp.TokenShards(elsewhere).resume(state=path)


RAMP = dp.Mixture({}, anneal=dp.Anneal(0, {"alpha": 1}, 9), omitted=1)
WRONG = [
    ({"split": "tarin"}, dp.SamplerError, "did you mean 'train'"),
    ({"seq_length": 0}, dp.SamplerError, "seq_length=0"),
    ({"pack": 1}, dp.SamplerError, "pack=1"),
    ({"pack": True, "eos": "<eos>"}, dp.SamplerError, "its end of text is '</s>'"),
    ({"eos": 5}, dp.SamplerError, "eos=5"),
    ({"mixture": {"alhpa": 1}}, dp.errors.MixtureError, "alhpa"),
    ({"world_size": 2, "rank": 2}, dp.SamplerError, "rank=2"),
    ({"by_bucket": True, "mixture": RAMP}, dp.errors.MixtureError, "end_step"),
]


def test_wrong_arguments_are_named(shards):
    for arguments, error, message in WRONG:
        with pytest.raises(error, match=message):
            shards.sampler(**arguments)


def test_bounds_remainders_and_the_forecast(shards):
    for how in [HOWS[name] for name in some(HOWS, less=3)]:
        arguments = {**COMMON, **how, "epochs": 2, "batch_size": 16}
        kept, dropped, padded = (
            shards.sampler(**arguments, remainder=remainder)
            for remainder in ("keep", "drop", "pad")
        )
        end = 2 * kept.epoch_length
        batches = list(kept)
        assert sum(map(len, batches)) == end
        assert sum(map(len, dropped)) == end // 16 * 16
        assert sum(batch["padded"].sum() for batch in padded) == -end % 16
        counts = Counter(source for batch in batches for source in batch["source"])
        told = Counter[str]()
        for row in shards.sampler(**arguments).forecast().table.to_pylist():
            told[row["source"]] += row["samples"]
        assert told == counts
        if "pack" not in how:
            assert kept.epoch_length == sum(map(len, TEXTS.values()))
        metrics = kept.metrics()
        assert {name: metrics[f"data/{name}/samples"] for name in counts} == counts
        tokens = sum(int(batch["attention_mask"].sum()) for batch in batches)
        assert sum(metrics[f"data/{name}/tokens"] for name in counts) == tokens
