"""The part of docs/benchmarks.md about text coming in, from text_in.json."""

from __future__ import annotations

from typing import Any

TEXT = """
## Text coming in

One run of `benchmarks/text_in.py` (load {load_before:.1f} before it).

**From the Hub.** {hub[records]:,} rows in {hub[shards]} Parquet shards ({hub[mb]:,.0f} MB) come from
a hub on the same machine, with an empty cache. The same files come from disk, in turns. The times are
{hub[hub_seconds]:.1f} s and {hub[disk_seconds]:.1f} s, **{hub[ratio]:.2f} times** (aim: 1.3). The peaks
are {hub[hub_peak_mb]:,} and {hub[disk_peak_mb]:,} MB (aim: 1,000). Every shard goes over HTTP, into the
cache and through a checksum. Rows are committed in pieces.

**Converters.** {converters[records]:,} Alpaca rows become messages, prompt and reply, from the file to
rows with ids (aim: 60,000 a second). The table compares with a Python loop, and with a mapping of two
columns without a conversion:

{converters_table}

**Denoiser.** MB of text per second of one core (aim: 20). The peer is a Python loop over lines with the
same rules:

{denoiser_table}

**Prefixes**, in turns in one process ({prefixes[records]:,} records): {prefixes[plain_per_s]:,.0f}
triplets/s without a prefix. A prefix of three columns gives {prefixes[three_columns_per_s]:,.0f}
({three_columns:.0f} %). A separate definition for every record gives {prefixes[of_records_per_s]:,.0f}
({of_records:.0f} %). Messages: {prefixes[messages_per_s]:,.0f} conversations/s.

**Data indexes.** {ours[entries]:,} entries are made, cut to a sample of half and weighted in
**{ours[make_size_sample_and_weight_s]:.1f} s** (aim: 10), with {ours[peak_mb_above_import]:,.0f} MB.
LLaMA-Factory makes a list of tuples. For {listed[entries]:,} entries it takes
{listed[make_size_and_weight_s]:.1f} s, {times:.0f} times as long as ours. It draws with replacement. So
at a weight of 1 it keeps {distinct:.0f} % of the rows.
"""

INTAKE = """
## The price of entry

`benchmarks/intake.py` (load {load_before:.1f} before it, {load_after:.1f} after) reads {rows:,} rows of
a title and a body, some 566 bytes. Figures are µs of processor time a row. The bare statement reads the
Parquet file with DuckDB, hashes each row twice and stores both texts. "In one call" is an ingest with
`prepare=True`: it splits the corpus, and makes the snapshot while it stores the texts.

{table}
"""

INTAKES = {
    "bare": "bare statement of DuckDB",
    "datasets": "`datasets.Dataset.from_parquet`",
    "lancedb": "lancedb, from an Arrow table",
    "parquet": "Parquet",
    "one_call": "Parquet, in one call",
    "in_place": "Parquet, texts left in place",
    "in_place_one_call": "the same in one call",
    "beyond_ascii": "Parquet, each text begins beyond ASCII",
    "nulls": "Parquet, 5 % of the bodies missing",
    "typed": "Parquet with whole-number ids, dates and groups",
    "csv": "CSV",
    "jsonl": "JSON lines",
}

IN_PLACE = """
## Texts left in place

`benchmarks/in_place.py` (load {load_before:.1f} before it) reads {records:,} records of two texts from
one Parquet file of {file_mb:,.0f} MB. The text is {mb:,.0f} MB of UTF-8. It is stored in the corpus, or
left in place.

| | inside | in place | in place / inside |
|---|---|---|---|
| corpus file, of the text (aim: 15 %) | {inside[share]:.1%} | **{in_place[share]:.1%}** | |
| ingest, s | {inside[ingest_s]:.0f} | {in_place[ingest_s]:.0f} | {ingest:.2f} |
| snapshot, s | {inside[prepare_s]:.0f} | {in_place[prepare_s]:.0f} | {prepare:.2f} |
| triplets/s from the snapshot, in turns (90 %) | {from_snapshot[inside]:,.0f} | {from_snapshot[in_place]:,.0f} | **{from_snapshot[ratio]:.2f}** |

An ingest in place reads each file a second time, with DuckDB, and compares hashes of its texts.
"""

CONVERTERS = {
    "alpaca_jsonl": "JSON lines, converted",
    "columns_jsonl": "JSON lines, two columns",
    "python_jsonl": "JSON lines, Python loop",
    "function_jsonl": "JSON lines, a user's function",
    "alpaca_parquet": "Parquet, converted",
    "columns_parquet": "Parquet, two columns",
    "python_parquet": "Parquet, Python loop",
}
KINDS = {"prose": "prose", "ocr": "OCR with many digits", "tables": "Markdown tables"}


def section(results: dict[str, Any]) -> str:
    """Return the section for the output of ``text_in.py``."""
    index = results["data_index"]
    return TEXT.format(
        **results,
        converters_table=_converters(results["converters"]),
        denoiser_table=_denoiser(results["denoiser"]),
        three_columns=100 * results["prefixes"]["three_columns_ratio"],
        of_records=100 * results["prefixes"]["of_records_ratio"],
        ours=index["ours"],
        listed=index["list_of_tuples"],
        times=index["ratios"]["time"],
        distinct=100 * index["list_of_tuples"]["distinct_rows_of_a_weight_of_1"],
    )


def intake_section(results: dict[str, Any]) -> str:
    """Return the section for the output of ``intake.py``."""
    rows = [
        "| | ingest | of bare | with split and snapshot | peak memory |",
        "|---|---|---|---|---|",
    ]
    for name, title in INTAKES.items():
        if (one := results.get(name)) is not None:
            whole = f"{one['ingest_split_prepare']:.1f}" if "ingest_split_prepare" in one else ""
            alone = "" if name.endswith("one_call") else f"{one['ingest']:.1f}"
            times = alone and f"{one['ingest_to_bare']:.2f}"
            peak = f"{one['peak_gb']:.2f} GB" if "peak_gb" in one else ""
            rows.append(f"| {title} | {alone} | {times} | {whole} | {peak} |")
    return INTAKE.format(**results, table="\n".join(rows))


def in_place_section(results: dict[str, Any]) -> str:
    """Return the section for the output of ``in_place.py``."""
    inside, outside = results["inside"], results["in_place"]
    return IN_PLACE.format(
        **results,
        mb=results["text_bytes"] / 1e6,
        file_mb=results["parquet_bytes"] / 1e6,
        ingest=outside["ingest_s"] / inside["ingest_s"],
        prepare=outside["prepare_s"] / inside["prepare_s"],
    )


def _converters(found: dict[str, Any]) -> str:
    rows = ["| | rows/s | rows per second of processor time | peak memory |", "|---|---|---|---|"]
    for name, title in CONVERTERS.items():
        one = found[name]
        rows.append(
            f"| {title} | {one['rows_per_s']:,} | {one['rows_per_cpu_s']:,} | "
            f"{one['peak_mb']:,} MB |"
        )
    return "\n".join(rows)


def _denoiser(found: dict[str, float]) -> str:
    rows = ["| | duckplets | line by line |", "|---|---|---|"]
    for kind, title in KINDS.items():
        ours, plain = found[f"{kind}_mb_per_s"], found[f"{kind}_plain_mb_per_s"]
        rows.append(f"| {title} | {ours:.0f} | {plain:.1f} |")
    return "\n".join(rows)
