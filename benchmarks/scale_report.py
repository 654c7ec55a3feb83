"""Writes the tables of docs/scale.md between its marks, from benchmarks/*.json.

Every figure there is of a table or a sentence made here; the words around them are the page's own.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from scale_model import Model, found

import duckplets as dp

PAGE = Path(__file__).parent.parent / "docs" / "scale.md"
SIZES = {10**n: f"10^{n}" for n in (7, 8, 9, 10)}
SECTIONS = 50_000_000
CORES, MEMORY_GB, HOURS = 16, 64, 24  # of one machine; of a day

BLOCK = re.compile(r"(<!-- (\w+): python benchmarks/report\.py -->\n).*?(<!-- end -->)", re.DOTALL)


def page(text: str) -> str:
    """Return the page with its blocks as they should be."""
    model = Model()
    return BLOCK.sub(lambda part: f"{part[1]}{BLOCKS[part[2]](model).strip()}\n{part[3]}", text)


def size(mb: float) -> str:
    """Return an amount of bytes, given in MB, in three digits."""
    for unit, of in (("PB", 1e9), ("TB", 1e6), ("GB", 1e3)):
        if mb >= of:
            return f"{mb / of:,.3g} {unit}"
    return f"{mb:,.3g} MB"


def number(value: float) -> str:
    """Return a number in three digits."""
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if rounded >= 100 else f"{rounded:g}"


def table(*rows: Iterable[str]) -> str:
    head, *rest = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([head, "|---" * (head.count("|") - 1) + "|", *rest])


# ---- what was measured, and 50 million sections

LINES = {
    ("ingest", "corpus_mb"): "corpus and its texts",
    ("prepare", "snapshot_mb"): "snapshot",
    ("ingest", "cpu_s"): "processor time of ingest",
    ("prepare", "cpu_s"): "processor time of the snapshot",
}


def measured(model: Model) -> str:
    rows = [
        [
            f"{records:,}",
            *(size(each[stage][name]) for stage, name in list(LINES)[:2]),
            *(f"{each[stage][name]:,.0f} s" for stage, name in list(LINES)[2:]),
            f"{each['ingest']['peak_mb']:,.0f} MB",
            f"{1000 * each['serve']['open_cpu_s']:,.0f} ms",
            f"{each['serve']['per_cpu_s']:,.0f}",
        ]
        for records, each in model.records.items()
    ]
    heads = ("peak of ingest", "opening", "triplets a second of processor time")
    pages = {records: each["report"] for records, each in model.records.items() if "report" in each}
    told = "\n".join(
        f"- {records:,} records: {page['page_cpu_s']:.1f} s of processor time, "
        f"{size(page['page_mb'])}"
        for records, page in pages.items()
    )
    of_pages = f"\n\nThe report page, with a snapshot (`prepare`):\n\n{told}"
    return table(["records", *LINES.values(), *heads], *rows) + (of_pages if pages else "")


def fifty(model: Model) -> str:
    rows = []
    for (stage, name), title in LINES.items():
        line = model.line(stage, name)
        at = line.at(SECTIONS)
        told = f"{number(at / 3600)} h" if name == "cpu_s" else size(at)
        unit = "s" if name == "cpu_s" else "MB"
        fit = f"{number(line.base)} {unit} + {number(line.slope * 1e6)} {unit} a million"
        rows.append([title, fit, f"{100 * line.off:.1f} %", f"{100 * line.ahead:+.1f} %", told])
    sizes = ", ".join(f"{records:,}" for records in model.records)
    head = ["", f"fit of {sizes}", "largest residual", "the largest, from the others alone"]
    return table([*head, f"{SECTIONS:,} sections, extrapolated"], *rows)


# ---- sizes


def sizes(model: Model) -> str:
    text, (in_place, of_place) = model.bytes / 1e6, model.of_in_place
    of, few = (
        ", ".join(f"{n:,}" for n in each) + " (scale.json)" for each in (model.records, [model.few])
    )
    beside = "a folder next to it, on every machine that samples"
    rows = [
        ["text", "files of any kind, or an object store", *_linear(text), "600 bytes a record"],
        ["the same as Parquet with zstd", "the same", *_along(model, "ingest", "parquet_mb"), of],
        [
            *("corpus and its texts", "a file and a folder, where the driver works"),
            *(*_along(model, "ingest", "corpus_mb"), of),
        ],
        [
            "corpus, text left in place",
            "the same, next to the Parquet files",
            *_linear(in_place / 1e6),
            of_place,
        ],
        ["full-text index", "in the corpus file", *_linear(model.of_few("index") / 1e6), few],
        ["mined negatives, 32 an anchor", "the same", *_linear(model.of_few("mine") / 1e6), few],
        ["snapshot", beside, *_along(model, "prepare", "snapshot_mb"), of],
        ["token shards", "a folder, shared storage", *_linear(model.of_few("shard") / 1e6), few],
        ["their token file", "on every machine that trains", *_linear(4 * model.tokens / 1e6), few],
        ["state of a run", "a file of its own", *_along(model, "serve", "state_mb"), of],
    ]
    return table(["", "where", *SIZES.values(), "extrapolated from, in records"], *rows)


def _linear(mb: float) -> list[str]:
    """Return the sizes of what takes so many MB a record."""
    return [size(mb * n) for n in SIZES]


def _along(model: Model, stage: str, name: str) -> list[str]:
    """Return sizes along a line; where one was measured, that."""
    line = model.line(stage, name)
    return [
        f"{size(model.records[n][stage][name])}, measured"
        if n in model.records
        else size(line.at(n))
        for n in SIZES
    ]


# ---- time, workers, what moves, memory


def hours(model: Model) -> str:
    rows = [
        [cost.title, *(number(cost.seconds(n) / 3600) for n in SIZES), cost.source]
        for cost in model.costs()
    ]
    return table(["core-hours", *SIZES.values(), "extrapolated from"], *rows)


def workers(model: Model) -> str:
    rows = []
    for n, title in SIZES.items():
        needed = sum(c.seconds(n) / c.share for c in model.shared() if c.share)
        exact = next(c for c in model.costs() if c.exact)
        most = exact.seconds(n) / (exact.share or 1)
        disk = n * (model.of_few("index") + model.of_few("shard") + 4 * model.tokens) / 1e6
        own = [f"{number(seconds / 3600)} h" for seconds in model.alone(n)]
        alone = f"{number(sum(c.seconds(n) for c in model.shared()) / 3600 / CORES)} h"
        day = [number(math.ceil(seconds / 3600 / HOURS)) for seconds in (needed, most)]
        rows.append([title, *own, alone, *day, size(disk)])
    head = (
        "records",
        "ingest, one process",
        "snapshot",
        f"all work for an engine on {CORES} cores",
    )
    more = ("workers to do it in a day", "workers for exact mining in a day", "shared storage")
    told = ", ".join(
        f"{work} {model.share(work):.0%}" for work in ("index", "mine", "gates", "shards")
    )
    of = "measured, engines.json" if model.engines else "the aims: not measured yet"
    return (
        f"{table([*head, *more], *rows)}\n\nA worker is one thread. Its work, in percent of a core "
        f"without an engine ({of}): {told}. The first two columns are for two cores."
    )


def moves(model: Model) -> str:
    text, index, mined = model.bytes, model.of_few("index"), model.of_few("mine")
    spool = 4 * model.tokens + model.of_few("shard")
    made = 1e6 * model.line("prepare", "served_mb").slope

    def at(each: float) -> str:
        return f"{number(each)} B, {size(each * 1e9 / 1e6)}"

    return table(
        ["stage", "to workers", "back to the driver", "through shared storage"],
        [
            "ingest",
            "names of files and row groups",
            "rows where they are few",
            f"the rest, {at(text)} and ids",
        ],
        ["gates, near-duplicates", at(text), "counts, or the bands of a text", "–"],
        ["index", at(text), f"words by text, at most {at(text)}", "–"],
        ["mining", "words of the anchors", at(mined), f"postings, {at(index)}, read by each"],
        ["token shards", at(text), "counts", at(spool)],
        ["training", f"snapshot and texts, {at(made)}, to each machine once", "–", "–"],
    )


def memory(model: Model) -> str:
    making, pages = model.making_memory(), model.line("prepare", "served_mb")
    rank = model.large["lists_256"]["anonymous_mb"]
    told = model.engines.get("works", {}).get("worker_peak_mb")
    few, many = (f"{each['records']:,}" for each in model.both)
    return table(
        ["", *SIZES.values(), "from"],
        ["private, to make a snapshot", *(size(making.at(n)) for n in SIZES),
         f"a line through {few} and {many}, measured (serving*.json)"],
        ["pages of snapshot and texts, to sample at full speed", *(size(pages.at(n)) for n in SIZES),
         "their size"],
        ["private memory of a rank that samples", *(size(rank) for _ in SIZES),
         f"measured at {many}, where it does not grow (serving_large.json)"],
        ["of a worker", *((f"{told:,} MB" if told else "1 GB") for _ in SIZES),
         "measured (engines.json)" if told else "the aim; not measured yet"],
    )  # fmt: skip


def machine(model: Model) -> str:
    pages, making = model.line("prepare", "served_mb"), model.making_memory()
    fits = (MEMORY_GB * 1000 - pages.base) / pages.slope
    makes = (MEMORY_GB * 1000 - making.base) / making.slope
    by_all = sum(c.seconds(fits) for c in model.shared()) / CORES
    taken = (by_all + sum(model.alone(fits))) / 3600
    return (
        f"On a machine of {MEMORY_GB} GB and {CORES} cores snapshot and texts of "
        f"about **{fits / 1e6:,.0f} million records** just fit into memory (extrapolated). To ingest, "
        f"filter and index them, mine by document shards, and make token shards and the snapshot "
        f"takes about {number(taken)} h (extrapolated). A snapshot can be built in {MEMORY_GB} GB "
        f"up to about {makes / 1e6:,.0f} million records (extrapolated)."
    )


def larger(_: Model) -> str:
    slow = found("delayed_disk")
    return "\n\n".join(
        [
            *map(_larger, LARGER),
            f"One file system answers each read after {slow['delay_ms']:g} ms (FUSE, "
            f"delayed_disk.json). There {slow['touched']:,.0f} pages a second came by touching them, "
            f"{slow['read']:,.0f} by reading one after the other, and {slow['read_ahead']:,.0f} by "
            f"reading ahead.",
        ]
    )


LARGER = ("larger_than_memory", "larger_in_place")


def _larger(name: str) -> str:
    told = found(name)
    head = ["turn", "random reads of 4 kB a second, 32 threads", "triplets a second",
            "part of reads ÷ 3.5", "processor time a triplet", "of 3.5 such reads",
            "private memory", "first batch", "with `no_duplicates`",
            "`datasets` at random"]  # fmt: skip
    turns = [(str(n + 1), turn) for n, turn in enumerate(told["turns"])]
    if "long" in told:
        turns.append(("a long one", {"held": told["long"]}))

    def row(number: str, turn: dict[str, Any]) -> list[str]:
        held, disk = turn["held"], turn.get("disk", {})
        distinct, peer = turn.get("no_duplicates"), turn.get("datasets", {})
        return [
            number,
            f"{disk['reads_per_s']:,.0f}" if disk else "–",
            f"{held['per_s']:,.0f}",
            f"{held['per_s'] * 3.5 / disk['reads_per_s']:.2f}" if disk else "–",
            f"{held['cpu_us']:.1f} µs",
            f"{disk['cpu_us'] * 3.5:.1f} µs" if disk else "–",
            f"{held['private_mb']:,.0f} MB",
            f"{held['first_batch_s']:.2f} s",
            f"{distinct['first_batch_s']:.2f} s" if distinct else "–",
            f"{peer['per_s']:,.1f}" if "per_s" in peer else ("killed" if peer else "–"),
        ]

    parquet, corpus, snapshot, texts = (
        size(told.get(f"{of}_bytes", 0) / 1e6) for of in ("parquet", "corpus", "snapshot", "texts")
    )
    beside = f", its texts of {texts}" if told.get("texts_bytes") else ""
    text = (
        f"{told['records']:,} records: {parquet} of Parquet, a corpus of {corpus}{beside}, a snapshot "
        f"of {snapshot}. In a control group with a tenth of what runs read and 300 MB, no page of it "
        f"in memory at first ({name}.json):\n\n{table(head, *(row(*turn) for turn in turns))}"
    )
    if "warm" not in told:
        text += (
            "\n\nThese are sections of 600 bytes, left in place. Anchor and positive are the same one, "
            "so a triplet there is some 2.3 reads, not 3.5."
        )
    if warm := told.get("warm"):
        text += (
            f"\n\nWith all pages in memory {warm['per_s']:,.0f} triplets a second, "
            f"{warm['cpu_us']:.1f} µs each, in the same run."
        )
    return text


def simulation(model: Model) -> str:
    told = found("simulate_ranks")
    run = told["run"]
    text = (
        f"{told['positions']:,} positions came in global batches of {told['batch']:,}. {told['ranks']:,} "
        f"ranks began, and saved every {told['save_every']} steps. There were {run['failures']} "
        f"failures. After each failure a random number of ranks ({run['least_ranks']} to "
        f"{told['ranks']:,}) continued from the last save. {run['done_again']:,} positions were done "
        f"again, because their results were lost. In the results **{run['missing']} positions "
        f"were missing and {run['repeated']} came twice**. The ranks' parts add up to "
        f"{run['taken_by_ranks']:,}. {run['slices']:,} slices of ranks, laid end to end, left "
        f"{run['wrong_slices']} gaps. All workers of all ranks planned {run['block_positions']:,} "
        f"positions, and {run['wrong_blocks']} of them differ from their blocks. "
        f"Promises broken in all: **{told['broken']}**. It took {told['cpu_s']:.0f} s."
    )
    head = [
        "sources",
        "prefixes looked at",
        "largest difference from the exact share",
        "bound",
        "over",
    ]
    shares = [
        [count, *(f"{each[n]:,}" for n in ("prefixes", "largest", "bound", "over"))]
        for count, each in told["shares"].items()
    ]
    epochs = [
        [f"{int(count):,}", f"{each['looked_at']:,}", f"{each['twice'] + each['not_at_all']:,}",
         f"{each['twice_if_drawn']:,}"]
        for count, each in told["epochs"].items()
    ]  # fmt: skip
    heads = ["anchors", "looked at in one epoch", "twice or left out", "twice if drawn at random"]
    return f"{text}\n\n{table(head, *shares)}\n\n{table(heads, *epochs)}"


# ---- engines

WORKS = {
    "index": "`index`",
    "mine": "`mine`",
    "gates": "`quality(apply=…)`, gates without language",
    "duplicates": "`deduplicate`, a dry run",
    "shards": "`shard`",
}
INGESTS = {
    "ingest_parquet": "`ingest` of Parquet",
    "ingest_csv": "`ingest` of CSV",
    "gates": "`ingest` through gates without language",
}


def verbs(model: Model) -> str:
    """Say which verbs take an engine, as their signatures do."""
    names = [
        f"`{name}`"
        for name, verb in inspect.getmembers(dp.Corpus, inspect.isfunction)
        if "engine" in inspect.signature(verb).parameters
    ]
    listed = f"{', '.join(names[:-1])} and {names[-1]}"
    return f"{listed} take `engine=`. In the shell, set `DUCKPLETS_ENGINE=local:4`. The values:"


def rates(model: Model) -> str:
    """Say what work by an engine comes to beside the same work without, on two cores."""
    works, ingests = model.engines, model.engine_ingest

    def row(title: str, each: dict[str, float], records: int) -> list[str]:
        alone, engine = (number(each[name]) for name in ("alone", "engine"))
        return [title, f"{records:,}", alone, engine, f"{each['ratio']:.2f}"]

    rows = [
        *(row(title, works["works"][name], works["records"]) for name, title in WORKS.items()),
        *(
            row(title, ingests[name], ingests["documents" if name == "gates" else "rows"])
            for name, title in INGESTS.items()
        ),
    ]
    peak = max(works["works"]["worker_peak_mb"], ingests["worker_peak_mb"])
    planning = ingests["planning"]
    head = ["", "records", "this process, two threads", "two workers", "ratio"]
    return (
        f"{table(head, *rows)}\n\nRecords a second, the better of two turns (engines.json, "
        f"engine_ingest.json). The most memory that a worker had was {peak:,} MB. To list "
        f"{planning['files']:,} files and to cut them into parts took {planning['seconds']:.1f} s."
    )


def speed(_: Model) -> str:
    """Return the table of the README: what serving.json has of ours and of peers."""
    run = found("serving")

    def row(title: str, name: str) -> list[str]:
        each = run[name]
        return [
            title,
            f"{each['per_s']:,.0f}",
            f"{each['per_cpu_s']:,.0f}",
            f"{each['anonymous_mb']:,.0f} MB",
        ]

    rows = table(
        ("triplets", "a second", "a second of processor time", "private memory"),
        row("**duckplets**", "lists_256"),
        row("duckplets, no text twice in a batch", "no_duplicates"),
        row("duckplets, mined negatives", "mined"),
        row(f"`datasets` {run['datasets']}, random rows of its mapped file", "datasets_random"),
        row(f"Grain {run['grain']}, from Python lists in memory", "grain_256"),
    )
    far = run["open_far"]
    return (
        f"{rows}\n\nA sample is a title, its body and another body of about 100 words, in batches of "
        f"256 as Python lists. There are {run['records']:,} records and two shared cores. One run "
        f"measured all rows. A process that resumes a run at position 10^9 has its first batch after "
        f"{far['cpu_s']:.1f} s of processor time, imports included. If pandas is installed, DuckDB "
        "and PyArrow import it. This takes 0.2 to 0.4 s more."
    )


BLOCKS: dict[str, Callable[[Model], str]] = {
    f.__name__: f
    for f in (
        *(measured, fifty, sizes, hours, workers, moves, memory, machine, larger, simulation),
        *(verbs, rates, speed),
    )
}
