"""The first statements of a process are DuckDB's, also where several threads make them."""

from effort import thorough
from programs import said

# sqlglot knows a dialect by its name before the dialect is made; here that takes a while.
PROGRAM = """
import sys, threading, time
from pathlib import Path
from sqlglot.dialects import dialect
import duckplets as dp

make = dialect.new_trie
def slow(*arguments):
    time.sleep(0.1)
    return make(*arguments)
dialect.new_trie = slow

def ingest(number):
    time.sleep(0.03 * number)
    try:
        with dp.Corpus(Path(sys.argv[1]) / f"{number}.duckdb") as corpus:
            source = dp.JsonSource(Path(sys.argv[1]) / "rows.jsonl", text="text", id="id")
            told = corpus.ingest(source, name="s", progress=False).added
            print(f"{told}\\n", end="")  # in one piece
    except dp.DuckpletsError as error:
        print(error)

threads = [threading.Thread(target=ingest, args=[number]) for number in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


@thorough
def test_threads_that_begin_together_make_the_same_statements(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"id": "1", "text": "one"}\n{"id": "2", "text": "two"}\n')
    assert said("-c", PROGRAM, tmp_path).split() == ["2"] * 4
