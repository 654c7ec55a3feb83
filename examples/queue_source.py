"""Read a queue as a source: stored messages are acknowledged, and none is lost or repeated.

python examples/queue_source.py

A process that reads the queue is killed half-way, and another continues. The queue is a table
here. Use any broker that hands out messages in order, and repeats them until they are
acknowledged.
"""

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import duckplets as dp

MESSAGES = 40_000


class Queue:
    """Messages with ascending numbers, in a file that outlives its readers."""

    def __init__(self, path):
        self.path = str(path)
        self._run(
            "CREATE TABLE IF NOT EXISTS messages "
            "(number INTEGER PRIMARY KEY AUTOINCREMENT, body)"  # no number is given out twice
        )

    def put(self, bodies):
        """Add messages at the end."""
        with closing(sqlite3.connect(self.path)) as connection, connection:
            rows = ((body,) for body in bodies)
            connection.executemany("INSERT INTO messages (body) VALUES (?)", rows)

    def waiting(self, after, limit):
        """Return some messages behind a number; they stay in the queue."""
        return self._run(
            "SELECT number, body FROM messages WHERE number > ? ORDER BY number LIMIT ?",
            (after, limit),
        )

    def acknowledge(self, number):
        """Remove all messages up to a number."""
        self._run("DELETE FROM messages WHERE number <= ?", (number,))

    def __len__(self):
        return self._run("SELECT count(*) FROM messages")[0][0]

    def _run(self, statement, values=()):
        with closing(sqlite3.connect(self.path)) as connection, connection:
            return connection.execute(statement, values).fetchall()


class Inbox:
    """The waiting messages; the cursor is the number of the last one.

    A cursor that comes back was committed with all records before it, so it is the time to
    acknowledge them. Not so when they were handed out: reading is ahead of storing.
    """

    name = "inbox"
    kind = "queue"

    def __init__(self, queue):
        self.uri = queue.path
        self.queue = queue
        self.last = self.began_behind = 0

    def batches(self, cursor):
        """Yield what waits by the thousand, until nothing does."""
        if cursor is not None:
            self.last = self.began_behind = cursor
            self.queue.acknowledge(cursor)
        while page := self.queue.waiting(self.last, 1000):
            self.last = page[-1][0]
            yield [{"id": number, "text": body} for number, body in page], self.last


def consume(folder, progress=None):
    """Store all that waits, and then acknowledge it; returns the report and where it began."""
    inbox = Inbox(Queue(folder / "queue.sqlite"))
    with dp.Corpus(folder / "inbox.duckdb") as corpus:
        report = corpus.ingest(inbox, progress=progress)
        inbox.queue.acknowledge(inbox.last)  # the records are published now
        return report, inbox.began_behind


def die_half_way(done, _):
    """End this process as nobody would wish, with some of the records committed."""
    if done >= 36_000:  # records are committed by the 16,384 at the latest, or every other second
        os.kill(os.getpid(), signal.SIGKILL)


def main():
    """Fill a queue, lose a reader, and see that it does not show."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        queue = Queue(folder / "queue.sqlite")
        queue.put(f"message {i} says {i * i % 9973}" for i in range(MESSAGES))

        killed = subprocess.run([sys.executable, __file__, name], check=False)
        print(f"the reader was killed: {killed.returncode == -signal.SIGKILL}; {len(queue)} wait")

        queue.put(f"a late message {i}" for i in range(500))
        report, began_behind = consume(folder)
        print(f"the next one went on in the middle: {0 < began_behind < MESSAGES}")
        print(f"{report.read} messages read, {report.added} records added; {len(queue)} wait")

        queue.put(["one more"])
        report, _ = consume(folder)
        print(f"{report.read} message read, {report.added} record added; {len(queue)} wait")
        with dp.Corpus(folder / "inbox.duckdb", read_only=True) as corpus:
            texts = corpus.sql("SELECT text FROM sections")["text"].to_pylist()
        print(f"{len(texts)} texts, {len(set(texts))} of them different")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        consume(Path(sys.argv[1]), die_half_way)
    else:
        main()
