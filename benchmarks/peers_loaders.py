"""What peers.py compares: a loader each, over its own copy of the same rows.

    Parquet ─make→ a peer's own format ─open→ Run ─epoch→ batches of columns   ─state, load→ another Run
                                       ├─next, other→ endless batches of three texts
                                       └─mixed→ sources of samples, in the order they are drawn

Each is written as the peer's own pages say, without worker processes. Imports little by itself:
this file runs in every peer's environment.
"""

from __future__ import annotations

import itertools
import json
import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

Columns = dict[str, list[Any]]
NAMES = ("id", "title", "body")
BUFFER = 10_000  # rows of a shuffle buffer
SHARDS = 6  # of peers that give whole shards to ranks: any of 1, 2, 3 ranks has as many
RECORDS = 1_000_000  # of an ArrayRecord file: each read takes time by how many a file has
SORTING = 1 << 30  # bytes: with the 100 MB of its default lancedb shuffles no ten million rows
WEIGHTS = (0.7, 0.3)


@dataclass(frozen=True)
class Part:
    """What one rank reads of a run."""

    rank: int = 0
    world: int = 1
    batch: int = 256  # of each rank
    seed: int = 42
    rescaled: bool = False  # whether another number of ranks has to go on with this run


class Run:
    """A run of one rank, over whole epochs.

    Args:
        place: Where its data lie.
        part: Which rank.
    """

    def __init__(self, place: Path, part: Part) -> None:
        self.place, self.part = place, part

    def epoch(self, number: int) -> Iterator[Columns]:
        """Yield the batches of an epoch; where a state was loaded, the rest of it."""
        raise NotImplementedError

    def state(self) -> Any:
        raise NotImplementedError

    def load(self, states: list[Any]) -> None:
        """Go on where the states of all ranks were taken."""
        raise NotImplementedError


class Peer:
    """A library, or one way of using it."""

    title = ""
    packages: tuple[str, ...] = ()  # with what they need
    alone: tuple[str, ...] = ()  # without
    stubs: Mapping[str, str] = MappingProxyType(
        {}
    )  # modules that it imports and does not need here
    version = ""  # of which package
    format = ""  # name of the folder, where several share one
    run: Callable[[Path, Part], Run] | None = None
    resumes = rescales = True
    note = ""

    def make(self, file: Path, place: Path) -> None:
        """Convert a Parquet file."""

    def next(self, place: Path, part: Part) -> Iterator[Columns]:
        """Yield batches without end; a negative is the body of the next row of the batch."""
        assert self.run
        run = self.run(place, part)
        for number in itertools.count():
            for found in run.epoch(number):
                bodies = found["body"]
                yield triplet(found, [*bodies[1:], bodies[0]])

    # The same, where a negative is the body of any other row.
    other: Callable[[Path, Part], Iterator[Columns]] | None = None
    # Sources of samples of two by WEIGHTS, for a seed.
    mixed: Callable[[Sequence[Path], int], Iterator[str]] | None = None
    negatives = ("next", "other")  # which of them are measured


def triplet(found: Columns, negatives: list[str]) -> Columns:
    return {"anchor": found["title"], "positive": found["body"], "negative": negatives}


def columns(rows: Sequence[Any], names: Sequence[str] = NAMES) -> Columns:
    return {name: [row[name] for row in rows] for name in names}


def groups(rows: Iterator[Any], size: int) -> Iterator[Columns]:
    """Yield rows as batches, the last one as it is."""
    while found := list(itertools.islice(rows, size)):
        yield columns(found)


def file_of(place: Path) -> Path:
    """Return the Parquet file that a peer's data were made from."""
    return place.parent / f"{place.parent.name}.parquet"


def blocks_of(file: Path) -> Iterator[Any]:
    """Yield the rows of a Parquet file as Arrow, without keeping them as `iter_batches` does."""
    import pyarrow.parquet as pq

    opened = pq.ParquetFile(file)
    for number in range(opened.num_row_groups):
        yield from opened.read_row_group(number).to_batches()


def rows_of(file: Path) -> Iterator[dict[str, str]]:
    """Yield the rows of a Parquet file."""
    for block in blocks_of(file):
        yield from block.to_pylist()


def others(rows: Sequence[int], records: int, draw: Any) -> Any:
    """Return another row for each."""
    found = draw.integers(records - 1, size=len(rows))
    return found + (found >= rows)


# ---- ours


class OurRun(Run):
    def __init__(self, place: Path, part: Part) -> None:
        import duckplets as dp

        super().__init__(place, part)
        self.records = int((place / "rows").read_text())
        self.kept: Columns = {}
        self.sampler = dp.Corpus(place / "corpus.duckdb", read_only=True).sampler(
            batch_size=part.batch,
            seed=part.seed,
            rank=part.rank,
            world_size=part.world,
            columns=["position", "anchor_record_id"],
            options=dp.Options(state=place / f"state{os.getpid()}.duckdb"),
        )

    def epoch(self, number: int) -> Iterator[Columns]:
        """Cut the endless stream where an epoch ends, which may be inside a batch."""
        end = (number + 1) * self.records
        while True:
            batch, self.kept = self.kept or self._batch(), {}
            cut = sum(position < end for position in batch["position"])
            if cut:
                yield {name: values[:cut] for name, values in batch.items()}
            if cut < len(batch["id"]):
                self.kept = {name: values[cut:] for name, values in batch.items()}
                return

    def _batch(self) -> Columns:
        batch = next(self.sampler)
        return {"id": batch["anchor_record_id"], "position": batch["position"]}

    def state(self) -> Any:
        return self.sampler.state_dict()

    def load(self, states: list[Any]) -> None:
        self.sampler.load_state_dict(states[0])


class Ours(Peer):
    title = "**duckplets**"
    run = OurRun
    negatives = ("other",)

    def make(self, file: Path, place: Path) -> None:
        import duckplets as dp

        with dp.Corpus(place / "corpus.duckdb") as corpus:
            corpus.split(train=1.0, validation=0.0, test=0.0)
            source = dp.sources.ParquetSource(file, anchor="title", positive="body", id="id")
            options = dp.IngestOptions(prepare=True)
            corpus.ingest(source, name=file.stem, progress=False, options=options)
            records = corpus.sql("SELECT count(*) AS n FROM live_records")["n"][0].as_py()
        (place / "rows").write_text(str(records))

    def other(self, place: Path, part: Part) -> Iterator[Columns]:
        import duckplets as dp

        corpus = dp.Corpus(place / "corpus.duckdb", read_only=True)
        for batch in corpus.sampler(batch_size=part.batch, seed=part.seed):
            yield {name: batch[name] for name in ("anchor", "positive", "negative")}

    def mixed(self, places: Sequence[Path], seed: int) -> Iterator[str]:
        import duckplets as dp

        path = places[0] / "both.duckdb"
        if not path.exists():
            with dp.Corpus(path) as corpus:
                corpus.split(train=1.0, validation=0.0, test=0.0)
                for place in places:
                    file = file_of(place)
                    source = dp.sources.ParquetSource(
                        file, anchor="title", positive="body", id="id"
                    )
                    corpus.ingest(source, name=file.stem, progress=False)
        names = [place.parent.name for place in places]
        corpus = dp.Corpus(path, read_only=True)
        mixture = dict(zip(names, WEIGHTS, strict=True))
        for batch in corpus.sampler(batch_size=100, mixture=mixture, seed=seed):
            yield from batch["source"]


# ---- Grain


class GrainRun(Run):
    def __init__(self, place: Path, part: Part, source: Callable[[Path], Any]) -> None:
        import grain

        super().__init__(place, part)
        data = grain.MapDataset.source(source(place)).map(decoded).seed(part.seed).shuffle()
        self.records = len(data)
        options = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)  # the fastest here
        if part.rescaled:  # its batches drop what is left, so the epochs follow without an end
            from grain.experimental import ElasticIterator

            shard = grain.sharding.ShardOptions(part.rank, part.world)
            size = part.batch * part.world
            endless = data.repeat()
            elastic = ElasticIterator(endless, size, shard, read_options=options)
            self.iterator = iter(elastic)
        else:
            own = data[part.rank :: part.world].batch(part.batch, batch_fn=columns)
            self.batches = len(own)
            self.iterator = iter(own.repeat().to_iter_dataset(options))

    def epoch(self, number: int) -> Iterator[Columns]:
        if not self.part.rescaled:
            done = self.iterator.get_state()["next_index"]
            yield from itertools.islice(self.iterator, (number + 1) * self.batches - done)
            return
        while (at := self.iterator.get_state()["global_next_index"]) < self.records:
            found = {name: list(values) for name, values in next(self.iterator).items()}
            keep = -(-(self.records - at - self.part.rank) // self.part.world)
            yield {name: values[:keep] for name, values in found.items()}

    def state(self) -> Any:
        return self.iterator.get_state()

    def load(self, states: list[Any]) -> None:
        self.iterator.set_state(states[self.part.rank if not self.part.rescaled else 0])


def decoded(row: Any) -> Any:
    return json.loads(row) if isinstance(row, bytes) else row


class GrainLists(Peer):
    title = "Grain, from Python lists"
    packages, version = ("grain", "array-record", "pyarrow"), "grain"
    note = "another number of ranks by its `ElasticIterator`; all texts are in memory"
    negatives = ("other",)

    def source(self, place: Path) -> Any:
        return list(rows_of(file_of(place)))

    def run(self, place: Path, part: Part) -> Run:  # type: ignore[override]
        return GrainRun(place, part, self.source)

    def other(self, place: Path, part: Part) -> Iterator[Columns]:
        import grain

        data = self.source(place)
        records = len(data)

        def drawn(i: int, rng: Any) -> dict[str, str]:
            other = int(rng.integers(records - 1))
            row, negative = decoded(data[i]), decoded(data[other + (other >= i)])
            return {"anchor": row["title"], "positive": row["body"], "negative": negative["body"]}

        found = grain.MapDataset.range(records).seed(part.seed).shuffle().repeat()
        found = found.random_map(drawn).batch(
            part.batch, batch_fn=lambda rows: columns(rows, ("anchor", "positive", "negative"))
        )
        options = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
        yield from found.to_iter_dataset(options)

    def mixed(self, places: Sequence[Path], seed: int) -> Iterator[str]:
        import grain

        parts = [
            grain.MapDataset.source([place.parent.name] * BUFFER).seed(seed).shuffle().repeat()
            for place in places
        ]
        yield from grain.MapDataset.mix(parts, list(WEIGHTS))


class GrainRecords(GrainLists):
    title = "Grain, from ArrayRecord"
    note = (
        f"JSON a record, {RECORDS:,} a file, read a batch at once; another number of ranks by its "
        "`ElasticIterator`"
    )
    mixed, format = None, "grain_records"

    def make(self, file: Path, place: Path) -> None:
        import pyarrow.parquet as pq
        from array_record.python.array_record_module import ArrayRecordWriter

        names = range(-(-pq.read_metadata(file).num_rows // RECORDS))
        writers = [
            ArrayRecordWriter(f"{place}/{name:05}.array_record", "group_size:1") for name in names
        ]
        for number, row in enumerate(rows_of(file)):
            writers[number // RECORDS].write(json.dumps(row).encode())
        for writer in writers:
            writer.close()

    def source(self, place: Path) -> Any:
        import grain

        return grain.sources.ArrayRecordDataSource(sorted(map(str, place.glob("*.array_record"))))

    def other(self, place: Path, part: Part) -> Iterator[Columns]:
        """Read the records of a batch at once: one by one they take fifty times as long."""
        import grain

        data = self.source(place)
        records = len(data)

        def drawn(numbers: list[int], rng: Any) -> Columns:
            away = rng.integers(1, records, size=len(numbers)).tolist()
            other = [(i + by) % records for i, by in zip(numbers, away, strict=True)]
            rows = list(map(json.loads, data.__getitems__([*numbers, *other])))
            found = columns(rows[: len(numbers)])
            return triplet(found, [row["body"] for row in rows[len(numbers) :]])

        found = grain.MapDataset.range(records).seed(part.seed).shuffle().repeat()
        found = found.batch(part.batch, batch_fn=list).random_map(drawn)
        options = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
        yield from found.to_iter_dataset(options)


class GrainSingle(GrainRecords):
    title = "Grain, from ArrayRecord, one by one"
    run = None  # type: ignore[assignment]
    note = "the same, a record at a time as its `DataLoader` reads"
    other = GrainLists.other


# ---- datasets


class DatasetsRun(Run):
    buffered = False

    def __init__(self, place: Path, part: Part) -> None:
        super().__init__(place, part)
        self.whole, self.loaded = datasets_of(place), None

    def epoch(self, number: int) -> Iterator[Columns]:
        from datasets.distributed import split_dataset_by_node

        seed = self.part.seed + number
        if self.buffered:
            data = self.whole.to_iterable_dataset(num_shards=SHARDS)
            data = data.shuffle(seed=seed, buffer_size=BUFFER)
        else:
            data = self.whole.shuffle(seed=seed).to_iterable_dataset(num_shards=SHARDS)
        self.data = split_dataset_by_node(data, self.part.rank, self.part.world)
        if self.loaded is not None:
            self.data.load_state_dict(self.loaded)
            self.loaded = None
        yield from self.data.iter(self.part.batch)

    def state(self) -> Any:
        return self.data.state_dict()

    def load(self, states: list[Any]) -> None:
        self.loaded = states[self.part.rank]


class BufferedRun(DatasetsRun):
    buffered = True


def datasets_of(place: Path) -> Any:
    import datasets

    datasets.disable_progress_bars()
    file = file_of(place)
    return datasets.Dataset.from_parquet(str(file), cache_dir=str(place))


class DatasetsShuffled(Peer):
    title = "`datasets`, shuffled"
    packages, version, format = ("datasets",), "datasets", "datasets"
    run = DatasetsRun
    negatives: tuple[str, ...] = ("next",)
    rescales = False
    note = "`shuffle` of all rows, read in that order"

    def make(self, file: Path, place: Path) -> None:
        datasets_of(place)

    def mixed(self, places: Sequence[Path], seed: int) -> Iterator[str]:
        from datasets import Dataset, interleave_datasets

        parts = [Dataset.from_dict({"source": [place.parent.name] * BUFFER}) for place in places]
        shares, stopping = list(WEIGHTS), "all_exhausted"
        found = interleave_datasets(parts, shares, seed=seed, stopping_strategy=stopping)
        yield from found["source"]


class DatasetsBuffer(DatasetsShuffled):
    title = "`datasets`, its shuffle buffer"
    run = BufferedRun
    note = f"{BUFFER:,} rows of {SHARDS} shards; a resumed buffer begins empty, as its pages say"
    mixed = None


class DatasetsRandom(DatasetsShuffled):
    title = "`datasets`, random rows"
    run = None
    note = "row numbers by NumPy: ranks and resuming are the caller's"
    negatives = ("other",)
    mixed = None

    def other(self, place: Path, part: Part) -> Iterator[Columns]:
        import numpy as np

        data, draw = datasets_of(place).with_format("arrow"), np.random.default_rng(part.seed)
        bodies = data.select_columns(["body"])
        while True:
            order = draw.permutation(len(data))
            for start in range(0, len(data) - part.batch + 1, part.batch):
                rows = order[start : start + part.batch]
                found = data[rows.tolist()].to_pydict()
                negatives = bodies[others(rows, len(data), draw).tolist()]
                yield triplet(found, negatives["body"].to_pylist())


# ---- webdataset


class WebRun(Run):
    def epoch(self, number: int) -> Iterator[Columns]:
        import webdataset

        data = webdataset.WebDataset(
            sorted(map(str, self.place.glob("*.tar"))),
            shardshuffle=SHARDS,
            nodesplitter=webdataset.split_by_node,
            detshuffle=True,
            seed=self.part.seed + number,
            empty_check=False,
        )
        rows = (
            {"id": row["__key__"], **{n: row[f"{n}.txt"].decode() for n in NAMES[1:]}}
            for row in data.shuffle(BUFFER, initial=BUFFER)
        )
        yield from groups(rows, self.part.batch)


class Web(Peer):
    title = "webdataset, its shuffle buffer"
    packages, version = ("webdataset", "pyarrow"), "webdataset"
    run = WebRun
    negatives = ("next",)
    resumes = rescales = False
    note = f"{BUFFER:,} rows of {SHARDS} shards"

    def make(self, file: Path, place: Path) -> None:
        import webdataset

        names = [str(place / f"{shard}.tar") for shard in range(SHARDS)]
        writers = [webdataset.TarWriter(name) for name in names]
        for number, row in enumerate(rows_of(file)):
            texts = {f"{name}.txt": row[name] for name in NAMES[1:]}
            writers[number % SHARDS].write({"__key__": row["id"], **texts})
        for writer in writers:
            writer.close()

    def mixed(self, places: Sequence[Path], seed: int) -> Iterator[str]:
        import webdataset

        random.seed(seed)  # what it draws by
        mix = webdataset.RandomMix(
            [[place.parent.name] * BUFFER for place in places], list(WEIGHTS)
        )
        yield from mix


# ---- lancedb


def lance_table(place: Path) -> Any:
    import lancedb

    os.environ["LANCEDB_PERM_BUILDER_MEMORY_LIMIT"] = str(SORTING)
    return lancedb.connect(str(place)).open_table("rows")


class LanceRun(Run):
    def __init__(self, place: Path, part: Part) -> None:
        super().__init__(place, part)
        self.loaded: list[Any] = []

    def epoch(self, number: int) -> Iterator[Columns]:
        from lancedb.streaming import StreamingDataset

        self.data = StreamingDataset(
            lance_table(self.place),
            num_splits=SHARDS,
            shuffle_seed=self.part.seed,
            epoch=number,
            rank=self.part.rank,
            world_size=self.part.world,
            read_batch_size=1024,
            columns=list(NAMES),
        )
        if self.loaded:
            self.data.load_state_dict(StreamingDataset.merge_state_dicts(self.loaded))
            self.loaded = []
        yield from groups(iter(self.data), self.part.batch)

    def state(self) -> Any:
        return self.data.state_dict()

    def load(self, states: list[Any]) -> None:
        self.loaded = states


class Lance(Peer):
    title = "lancedb, `StreamingDataset`"
    packages = ("lancedb", "pyarrow", "filelock", "sympy", "networkx", "jinja2", "fsspec")
    alone, version, format = ("torch==2.13.0",), "lancedb", "lancedb"
    run = LanceRun
    negatives: tuple[str, ...] = ("next",)
    note = f"{SHARDS} splits, 1,024 rows a read"

    def make(self, file: Path, place: Path) -> None:
        import lancedb
        import pyarrow.parquet as pq

        schema = pq.read_schema(file)
        lancedb.connect(str(place)).create_table("rows", blocks_of(file), schema=schema)


class PermutationRun(Run):
    def epoch(self, number: int) -> Iterator[Columns]:
        yield from permuted(self.place, self.part, number).iter(self.part.batch)


def permuted(place: Path, part: Part, epoch: int) -> Any:
    from lancedb.permutation import Permutation, permutation_builder

    table = lance_table(place)
    builder = permutation_builder(table).split_random(fixed=part.world, seed=part.seed + epoch)
    found = Permutation.from_tables(table, builder.execute(), part.rank)
    return found.with_format("python_col")


class LancePermutation(Lance):
    title = "lancedb, a permutation"
    run = PermutationRun
    negatives = ("next", "other")
    resumes = rescales = False
    note = "a split a rank; a caller may skip rows, and keeps their number"

    def other(self, place: Path, part: Part) -> Iterator[Columns]:
        import numpy as np
        from lancedb.permutation import Permutation

        bodies = Permutation.identity(lance_table(place)).select_columns(["body"])
        bodies, draw = bodies.with_format("python_col"), np.random.default_rng(part.seed)
        for epoch in itertools.count():
            for found in permuted(place, part, epoch).iter(part.batch):
                rows = draw.integers(bodies.num_rows, size=len(found["id"]))
                yield triplet(found, bodies.__getitems__(rows.tolist())["body"])


# ---- mosaicml-streaming, litdata

TORCH = ("filelock", "sympy", "networkx", "jinja2", "fsspec", "typing-extensions", "pyarrow")


class LoaderRun(Run):
    """A run whose loader keeps its own state."""

    loader: Any

    def epoch(self, number: int) -> Iterator[Columns]:
        yield from self.loader

    def state(self) -> Any:
        return self.loader.state_dict()

    def load(self, states: list[Any]) -> None:
        self.loader.load_state_dict(states[0])


class StreamingRun(LoaderRun):
    def __init__(self, place: Path, part: Part) -> None:
        from streaming import StreamingDataLoader, StreamingDataset

        super().__init__(place, part)
        self.data = StreamingDataset(
            local=str(place), shuffle=True, shuffle_seed=part.seed, batch_size=part.batch
        )
        self.loader = StreamingDataLoader(self.data, batch_size=part.batch, collate_fn=columns)


class Streaming(Peer):
    title = "mosaicml-streaming"
    packages = (
        *TORCH,
        *("numpy<2.2", "tqdm", "xxhash<4", "Brotli", "python-snappy", "zstd", "transformers<5"),
        *("catalogue", "psutil", "pillow", "boto3", "azure-core", "requests"),
    )
    alone, version = ("torch==2.13.0", "mosaicml-streaming"), "mosaicml-streaming"
    stubs = MappingProxyType(
        {
            "torchvision/__init__.py": "",
            "torchvision/datasets.py": "class VisionDataset: ...\n",
            "torchvision/transforms/__init__.py": "",
            "torchvision/transforms/functional.py": "to_tensor = None\n",
        }
    )
    run = StreamingRun
    note = "ranks get the same number of rows by repeating some"

    def make(self, file: Path, place: Path) -> None:
        from streaming import MDSWriter

        with MDSWriter(out=str(place), columns=dict.fromkeys(NAMES, "str"), exist_ok=True) as out:
            for row in rows_of(file):
                out.write(row)

    def other(self, place: Path, part: Part) -> Iterator[Columns]:
        import numpy as np

        run, draw = StreamingRun(place, part), np.random.default_rng(part.seed)
        records = run.data.num_samples
        for number in itertools.count():
            for found in run.epoch(number):
                rows = draw.integers(records, size=len(found["id"])).tolist()
                yield triplet(found, [run.data[row]["body"] for row in rows])

    def mixed(self, places: Sequence[Path], seed: int) -> Iterator[str]:
        from streaming import Stream, StreamingDataset

        parts = zip(places, WEIGHTS, strict=True)
        streams = [Stream(local=str(place), proportion=share) for place, share in parts]
        data = StreamingDataset(streams=streams, shuffle=True, shuffle_seed=seed, batch_size=100)
        for row in data:
            yield "first" if row["id"].startswith("first") else "second"


class LitRun(LoaderRun):
    def __init__(self, place: Path, part: Part) -> None:
        from litdata import StreamingDataLoader, StreamingDataset

        super().__init__(place, part)
        self.data = StreamingDataset(str(place), shuffle=True, seed=part.seed)
        self.loader = StreamingDataLoader(self.data, batch_size=part.batch, collate_fn=columns)


def as_it_is(row: dict[str, str]) -> dict[str, str]:
    return row


class Lit(Peer):
    title = "litdata"
    packages = (*TORCH, "numpy", "requests", "boto3", "tifffile", "lightning-utilities", "obstore")
    alone, version = ("torch==2.13.0", "litdata"), "litdata"
    run = LitRun
    note = "with several ranks it drops a last batch that is not full, by default"

    def make(self, file: Path, place: Path) -> None:
        from litdata import optimize

        rows = list(rows_of(file))
        optimize(as_it_is, rows, str(place), chunk_bytes="16MB", num_workers=1, verbose=False)

    def other(self, place: Path, part: Part) -> Iterator[Columns]:
        run, others, draw = LitRun(place, part), LitRun(place, part).data, random.Random(part.seed)
        records = len(others)
        for number in itertools.count():
            for found in run.epoch(number):
                rows = [draw.randrange(records) for _ in found["id"]]
                yield triplet(found, [others[row]["body"] for row in rows])

    def mixed(self, places: Sequence[Path], seed: int) -> Iterator[str]:
        from litdata import CombinedStreamingDataset, StreamingDataset

        parts = [StreamingDataset(str(place), shuffle=True, seed=seed) for place in places]
        shares = list(WEIGHTS)
        data = CombinedStreamingDataset(parts, seed, shares, iterate_over_all=False)
        for row in data:
            yield "first" if row["id"].startswith("first") else "second"


PEERS: dict[str, Peer] = {
    "ours": Ours(),
    "grain_lists": GrainLists(),
    "grain_records": GrainRecords(),
    "grain_single": GrainSingle(),
    "datasets_random": DatasetsRandom(),
    "datasets_shuffled": DatasetsShuffled(),
    "datasets_buffer": DatasetsBuffer(),
    "webdataset": Web(),
    "lancedb": Lance(),
    "lancedb_permutation": LancePermutation(),
    "litdata": Lit(),
    "streaming": Streaming(),
}
