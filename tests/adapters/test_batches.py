"""What a worker hands over arrives as a dict, whichever way its columns are asked for."""

import copy
import pickle

import pyarrow as pa
import pytest

torch = pytest.importorskip("torch")

from adapters.loaders import loader, plain  # noqa: E402
from torch.utils.data import default_convert  # noqa: E402

import duckplets as dp  # noqa: E402
from duckplets.adapters.torch.batches import HandedOver, WholeBatch  # noqa: E402
from duckplets.samples.batch import Batch  # noqa: E402
from duckplets.torch import SamplerDataset  # noqa: E402

COLUMNS = {
    "anchor": ["a", "ü\x00", ""],
    "negative": [None, "b", "c"],
    "tokens": [1, None, 3],
    "weight": [0.5, None, 2.0],
    "swapped": [True, False, True],
    "messages": [[{"role": "user"}], [], None],
}
TYPES = {"tokens": pa.int32()}
EXPECTED = {
    **{name: COLUMNS[name] for name in ("anchor", "negative", "messages")},
    "tokens": [1, -1, 3],
    "swapped": [True, False, True],
    "step": 5,
}


def batch(low=0, high=3):
    columns = {name: pa.array(values, TYPES.get(name)) for name, values in COLUMNS.items()}
    return Batch(pa.table(columns).slice(low, high - low), step=5, position=80)


def arrived(**slices):
    return pickle.loads(pickle.dumps(default_convert(HandedOver(batch(**slices)))))


def seen(columns):
    """Return the columns but weights, of which one is not a number, as plain values."""
    there = {**columns}
    weights = there.pop("weight")
    assert weights.dtype == torch.float64
    assert weights[0] == 0.5
    assert weights[1].isnan()
    return plain([there])[0]


def updated(there, columns):
    there.update(columns)
    return there


WAYS = {
    "by key": lambda b: {name: b[name] for name in b},
    "items": lambda b: dict(b.items()),
    "values": lambda b: dict(zip(b.keys(), b.values(), strict=True)),
    "get": lambda b: {name: b.get(name) for name in b},
    "pop": lambda b: {name: b.pop(name) for name in list(b)},
    "dict": dict,
    "**": lambda b: (lambda **columns: columns)(**b),
    "|": lambda b: b | {},
    "of |": lambda b: {} | b,
    "update": lambda b: updated({}, b),
    "copy": lambda b: b.copy(),
    "deepcopy": copy.deepcopy,
    "pickle": lambda b: pickle.loads(pickle.dumps(b)),
    "default_convert": default_convert,
}


MADE = [arrived, lambda: WholeBatch.of(batch()), lambda: HandedOver(batch())]
OF_DICTS = ("pop", "|", "of |", "copy", "deepcopy")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("make", MADE, ids=["arrived", "whole", "in a worker"])
def test_every_way_of_asking_has_all_columns(make, way):
    if not (make is MADE[2] and way in OF_DICTS):
        assert seen(WAYS[way](make())) == EXPECTED


def test_tensors_are_pinned_and_texts_stay(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor + 1)
    found = arrived().pin_memory()
    assert isinstance(found, WholeBatch)
    assert found["tokens"].tolist() == [2, 0, 4]
    assert found["anchor"] == COLUMNS["anchor"]


def with_lengths(batch):
    return {**batch, "lengths": [len(text) for text in batch["anchor"]]}


def test_a_collate_function_of_workers_has_columns(corpus_path, alone):
    dataset = SamplerDataset(corpus_path, batch_size=16, seed=7, steps=2)
    batches = loader(dataset, 1, collate_fn=with_lengths)
    expected = [{**b, "lengths": [len(text) for text in b["anchor"]]} for b in alone[:2]]
    assert plain(batches) == expected


def test_a_text_that_is_none_is_named_where_it_arrives():
    texts = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.array([0, 2], pa.int32()).buffers()[1], pa.py_buffer(b"\xff\xfe")]
    )
    given = HandedOver(Batch(pa.table({"anchor": texts}), step=0, position=0))
    with pytest.raises(dp.errors.DamagedFileError, match="'anchor'"):
        pickle.loads(pickle.dumps(given))
