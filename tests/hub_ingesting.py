"""A process that ingests a list of data sets into a corpus, over and over, to be killed.

    python tests/hub_ingesting.py LIST

For each line ``CORPUS`` of its standard input it forks a child that ingests what is left of the
list into that corpus, prints the child's process id, and, once the child has ended, the status.
Forking saves the second that imports take. Tables and commits are small, so that there are many
moments to be killed at.
"""

from __future__ import annotations

import os
import sys
import traceback

import huggingface_hub
import yaml

import duckplets
from duckplets.ingest import ingest
from duckplets.sources import row_batches
from duckplets.sources.remote.hub import read_hub_list

assert huggingface_hub.__version__
assert yaml.__version__


def all_of(sources: str, path: str) -> None:
    row_batches.MAX_ROWS, row_batches._CHUNK_ROWS = 20, 20
    ingest._ROWS_A_COMMIT = 30
    ingest._TIMES_A_COMMIT = 0
    with duckplets.Corpus(path, threads=1, memory_limit="300MB") as corpus:
        done = set(corpus.sources()["name"].to_pylist())
        if not done and not corpus.version:
            corpus.split(train=0.8, validation=0.1, test=0.1, seed=5)
        for source in read_hub_list(sources):
            if source.default_name() not in done:
                corpus.ingest(source, progress=False)


def main() -> None:
    for line in sys.stdin:
        child = os.fork()
        if not child:
            try:
                all_of(sys.argv[1], line.rstrip("\n"))
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
