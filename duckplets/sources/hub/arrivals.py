"""Shards in their order, each brought here while the one before is read."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager

from duckplets.sources.hub.cache import Held, ShardCache
from duckplets.sources.hub.download import Hub, HubFile
from duckplets.sources.hub.layout import suffix_of


def arrivals(
    hub: Hub, cache: ShardCache, revision: str, files: Sequence[HubFile]
) -> Generator[tuple[HubFile, Held], None, None]:
    """Yield the files of a revision, held in the cache until the next is asked for.

    One that cannot be in the cache together with the one being read is brought after that one.
    Closing breaks off a download; what has arrived stays, and the next time it goes on there.

    Raises:
        SourceError: A file cannot be had.
    """
    with _thread(hub) as thread:
        coming = thread.submit(_bring, hub, cache, revision, files[0]) if files else None
        for place, file in enumerate(files):
            held = (coming or thread.submit(_bring, hub, cache, revision, file)).result()
            following = files[place + 1 : place + 2]
            coming = None
            if following and cache.fits(file.size, following[0].size):
                coming = thread.submit(_bring, hub, cache, revision, following[0])
            try:
                with closing(held):
                    yield file, held
            except BaseException:
                if coming is not None:
                    coming.add_done_callback(_close)  # nobody will read it
                raise


@contextmanager
def _thread(hub: Hub) -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1, thread_name_prefix="duckplets-hub") as thread:
        try:
            yield thread
        finally:
            hub.stop.set()


def _close(done: Future[Held]) -> None:
    if not done.cancelled() and done.exception() is None:
        done.result().close()


def _bring(hub: Hub, cache: ShardCache, revision: str, file: HubFile) -> Held:
    identity = "\n".join([hub.repo, file.path, file.sha256 or file.oid])
    return cache.hold(
        identity, suffix_of(file.path), file.size, lambda part: hub.fetch(file, revision, part)
    )
