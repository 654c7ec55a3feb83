"""The part of docs/benchmarks.md about token shards and batches of them, from their two files."""

from __future__ import annotations

from typing import Any

TEXT = """
## Token shards

One run of `benchmarks/tokens.py`: {texts:,} pages of Python's documentation, the best of several turns
each. Two threads write the shards from encoded texts. They had {processors:.2f} processors. If this is
little, others used the machine, and only the rate by processor time counts.

| measurement | result |
|---|---|
| `encode_batch` of tokenizers alone, both cores to itself | {encode_batch_mb_s:,.1f} MB/s of text |
| encoding on the way to shards | {encode_mb_s:,.1f} MB/s, {encode_percent:.0f} % of it |
| writing {write_mb:,.0f} MB of tokens as shards | {write_mb_s:,.0f} MB/s |
| the same, per second of processor time | {write_mb_per_cpu_s:,.0f} MB |
| `verify` of {verify_mb:,.0f} MB | {verify_mb_s:,.0f} MB/s |
| reading these files and nothing else | {read_mb_s:,.0f} MB/s |
"""

BATCHES = """
## Token batches

One run of `benchmarks/token_batches.py`: {tokens:,} random tokens in texts of 20 to 2,000 tokens, in
two sources. Batches have 8 rows of 2,048, and all four arrays. Rates by processor time are for one
core. The process of packed rows had {processors:.2f} of one core. If this is little, ignore the rates
by the clock and the first batches. *Resident* includes the mapped pages of the token file.

| measurement | tokens/s | tokens per second of processor time | first batch | resident |
|---|---|---|---|---|
{rows}

{peer}
"""

TITLES = {
    "token_file": "the token file, made once",
    "packed": "packed rows",
    "packed_without_ends": "packed without a token between texts",
    "packed_of_eight_ranks": "packed, what one of eight ranks takes",
    "single": "a text a row",
    "by_bucket": "a text a row, batches of one length class",
    "peer_datasets": "`datasets`, streamed through a buffer of 10,000 texts, packed",
}


def shards_section(results: dict[str, float]) -> str:
    """Return the section for the output of ``tokens.py``."""
    return TEXT.format(
        **results,
        encode_percent=100 * results["encode_ratio"],
        processors=results["write_mb_s"] / results["write_mb_per_cpu_s"],
    )


def batches_section(results: dict[str, Any]) -> str:
    """Return the section for the output of ``token_batches.py``."""
    rate = {name: found["tokens_per_cpu_s"] for name, found in _measured(results).items()}
    peer = ""
    if "peer_datasets" in rate:
        times = rate["packed"] / rate["peer_datasets"]
        peer = f"By processor time packed rows come **{times:.1f} times** as fast as by `datasets`."
    return BATCHES.format(
        tokens=results["tokens"],
        rows="\n".join(_row(name, found) for name, found in _measured(results).items()),
        processors=results["packed"]["tokens_per_s"] / rate["packed"],
        peer=peer,
    )


def _measured(results: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Return what was measured: not a peer that is not installed."""
    return {name: results[name] for name in TITLES if "tokens_per_s" in results.get(name, {})}


def _row(name: str, found: dict[str, float]) -> str:
    first = f"{found['first_batch_s']:.2f} s" if "first_batch_s" in found else ""
    rates = (found["tokens_per_s"] / 1e6, found["tokens_per_cpu_s"] / 1e6)
    figures = " | ".join(f"{rate:,.2f} million" for rate in rates)
    return f"| {TITLES[name]} | {figures} | {first} | {found['peak_mb']:,.0f} MB |"
