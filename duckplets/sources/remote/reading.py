"""Read the shards of a data set in order, as blocks of rows with cursors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from duckplets.errors import SourceError
from duckplets.sources import row_batches
from duckplets.sources.files import called, reader_of, used_of
from duckplets.sources.mapping import Mapped
from duckplets.sources.names import left_out_of
from duckplets.sources.remote.download import imported
from duckplets.sources.remote.layout import form_of
from duckplets.sources.rows import Look, RowBlock
from duckplets.sources.typed import Classes, blocks_of, classes_of_features, with_classes

if TYPE_CHECKING:
    from duckplets.db.database import Database

_SLICE = 1_024  # rows of a block; marks fall between blocks
_ROWS = 1_000  # rows of a batch of datasets


def shard_blocks(
    reader: Database, file: str, here: Path, uri: str, mapping: Mapped, classes: Classes, skip: int
) -> Iterator[RowBlock]:
    """Yield the rows of a downloaded shard after the first ``skip``, each block with its cursor."""
    form, shown, row = form_of(file), f"{uri}: {file}", 0
    with called(here, shown):
        shard = _ByDatasets(here) if form is None else reader_of(form)(here, text="x")
        look = shard.look(here, reader)
        used = used_of(mapping, look, shown, reader, "HubSource")
        names, others = look.columns, left_out_of(mapping, look.columns or ())
        of_card = {n: c for n, c in classes.items() if n not in look.classes}
        for block in shard.blocks(here, look, used, reader):
            while block.rows:
                part = block._replace(rows=block.rows[: min(_SLICE, row_batches.MAX_ROWS)])
                block = block.after(len(part.rows))
                passed = min(skip, len(part.rows))
                row, skip = row + len(part.rows), skip - passed
                if passed < len(part.rows):
                    rows = with_classes(part.rows, of_card)
                    part = part._replace(rows=rows, columns=names, left_out=others)
                    yield part.after(passed)._replace(file=file, at={"file": file, "row": row})


class _ByDatasets:
    """A shard of another format, streamed by the loader of ``datasets``.

    The loader gets the downloaded shard, not the repository. Scripts are never run.
    """

    def __init__(self, here: Path) -> None:
        datasets = imported("datasets")
        with _told(here):
            self._found = datasets.load_dataset(
                str(here.parent), data_files={"train": [here.name]}, split="train", streaming=True
            )

    def look(self, here: Path, _: Database) -> Look:
        """Return the columns of the first row."""
        with _told(here):
            first = next(iter(self._found.with_format("arrow").iter(batch_size=1)), None)
        return Look([] if first is None else first.schema.names)

    def blocks(
        self, here: Path, look: Look, used: list[str], reader: Database
    ) -> Iterator[RowBlock]:
        """Yield the rows."""
        with _told(here):
            for table in self._found.with_format("arrow").iter(batch_size=_ROWS):
                batches = table.combine_chunks().to_batches()
                classes = classes_of_features(self._found.features)
                yield from blocks_of(batches, str(here), columns=used, classes=classes)


@contextmanager
def _told(here: Path) -> Iterator[None]:
    """Turn any error of a loader into one sentence."""
    try:
        yield
    except SourceError:
        raise
    except Exception as error:
        lines = (line.strip() for line in str(error).splitlines() if line.strip())
        said = ": ".join([type(error).__name__, *islice(lines, 1)])
        raise SourceError(f"{here} cannot be read by datasets either: {said}") from None
