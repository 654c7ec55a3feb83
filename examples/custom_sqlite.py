"""Read a database as a source, by pages; stop in the middle, and continue.

python examples/custom_sqlite.py
"""

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import duckplets as dp

PAGE = """
    SELECT id, title, reply, product, closed FROM tickets
    WHERE id > ? AND reply <> '' ORDER BY id LIMIT 1000
"""


class Tickets:
    """Answered tickets of a help desk; the cursor is the id of the last one that was read."""

    name = "tickets"
    kind = "sqlite"

    def __init__(self, path, lost_at=None):
        self.uri = str(path)
        self.lost_at = lost_at
        self.began_at = []

    def batches(self, cursor):
        """Yield pages of records and the last id of each, from behind the cursor on."""
        last = cursor or 0
        self.began_at.append(last)
        with closing(sqlite3.connect(self.uri)) as connection:
            # A page that begins where the last one ended costs the same however deep it is.
            while page := connection.execute(PAGE, (last,)).fetchall():
                if self.lost_at and last >= self.lost_at:
                    raise TimeoutError("the database does not answer")
                last = page[-1][0]
                yield [_record(*row) for row in page], last


def _record(number, title, reply, product, closed):
    return {
        "id": number,
        "anchor": title,
        "positive": reply,
        "date": closed,
        "meta": {"product": product},
    }


def make(path):
    """Write a database of 24,000 tickets; every tenth has no reply."""
    products = ["printer", "scanner", "router", "phone"]
    rows = (
        (
            f"{products[i % 4]} {i // 4} shows error {i % 97}",
            "" if i % 10 == 9 else f"Error {i % 97}: switch it off, wait {i % 13} s and try again.",
            products[i % 4],
            f"2024-{i % 12 + 1:02}-{i % 28 + 1:02}",
        )
        for i in range(24_000)
    )
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "CREATE TABLE tickets (id INTEGER PRIMARY KEY, title, reply, product, closed)"
        )
        connection.executemany(
            "INSERT INTO tickets (title, reply, product, closed) VALUES (?, ?, ?, ?)", rows
        )


with tempfile.TemporaryDirectory() as folder:
    database = Path(folder) / "helpdesk.sqlite"
    make(database)
    tickets = Tickets(database, lost_at=20_000)
    with dp.Corpus(Path(folder) / "tickets.duckdb") as corpus:
        try:
            corpus.ingest(tickets)
        except dp.SourceError as error:
            print(f"interrupted: {error}")
        print(f"records to be seen: {corpus.sql('FROM live_records').num_rows}")

        tickets.lost_at = None  # later, when the database is back
        report = corpus.ingest(tickets)
        first, second = tickets.began_at
        print(f"began at id {first}, went on in the middle: {0 < second < 24_000}")
        print(f"{report.read} rows read, {report.added} records added, each once")
        print(corpus.split())
