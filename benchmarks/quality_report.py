"""The part of docs/benchmarks.md about what BM25 negatives are worth, from quality.json."""

from __future__ import annotations

from typing import Any

TEXT = """
## What BM25 negatives are worth

One run of `benchmarks/quality.py` ({minutes:.0f} minutes), on two corpora. In WordNet the pair is an
example sentence and its definition ({wordnet_train:,} anchors of train, {wordnet_test} of test). In
Python's own documentation it is a name and its docstring ({python_train} and {python_test} anchors).
Two small models are fine-tuned with random and with BM25 negatives; everything else is equal. The
models are word vectors ({words_steps} steps, {words_seeds} seeds) and MiniLM ({minilm_steps} steps,
{minilm_seeds} seeds). They learn from all texts of a batch of {batch} (*in batch*) or from a triplet's
own negative alone (*own negative*). The validation split chooses one of three settings of BM25. The
test split measures it and the default.

BM25's negatives are closer to their anchors than random ones are, by word overlap (Jaccard)
**{wordnet_ratio:.0f} times** on WordNet and **{python_ratio:.0f} times** on Python's documentation:

{closeness}

*Above the positive* is the share of negatives that the untrained MiniLM ranks above the positive. They
are likely false negatives. *Fallbacks* are drawn at random, because no candidate is left.

The table has the mean reciprocal rank of the positive among all texts of a held-out split. It also has
the difference from random negatives, with its standard error over the queries:

{gains}

At this scale (some thousand anchors, seconds of training) BM25 negatives are **no clear gain on
WordNet**. With the default settings the difference is between {wordnet_low:+.3f} and
{wordnet_high:+.3f}. With the chosen settings it is between {wordnet_chosen_low:+.3f} and
{wordnet_chosen_high:+.3f}. On Python's documentation the chosen settings differ by
{python_chosen_low:+.3f} to {python_chosen_high:+.3f}. The figures show two reasons. First, an example
sentence shares words with many definitions that fit it nearly as well. By default
{wordnet_above:.0f} % of the negatives are above the positive; {wordnet_above_random:.0f} % of the random
ones are. A margin of 5 % leaves {wordnet_above_margin:.0f} %. Second, the other texts of a batch are
negatives already. A margin by BM25 leaves many anchors to random negatives (see *fallbacks*). The other
anchors gain only in some cases. So look at the closeness of your own text first, and compare on your
own held-out split.
"""

NAMES = {"words": "word vectors", "minilm": "MiniLM"}
LOSSES = {"in_batch": "in batch", "own_negative": "own negative"}
SETTINGS = {
    "random": "random",
    "default": "BM25, default",
    "relative_margin": "BM25, `relative_margin=0.05`",
    "range_min": "BM25, `range_min=10, range_max=42`",
}
TITLES = {"wordnet": "WordNet", "python": "Python"}


def section(results: dict[str, Any]) -> str:
    """Return the section for the output of ``quality.py``."""
    wordnet, python = results["data"]["wordnet"], results["data"]["python"]
    models = results["models"]
    default = _gains(wordnet, default=True)
    chosen, of_python = _gains(wordnet, default=False), _gains(python, default=False)
    above = {name: of["above_positive"] for name, of in _closeness(wordnet).items()}
    return TEXT.format(
        minutes=results["minutes"],
        wordnet_train=wordnet["anchors"]["train"],
        wordnet_test=wordnet["anchors"]["test"],
        python_train=python["anchors"]["train"],
        python_test=python["anchors"]["test"],
        words_steps=models["words"]["steps"],
        words_seeds=len(models["words"]["seeds"]),
        minilm_steps=models["minilm"]["steps"],
        minilm_seeds=len(models["minilm"]["seeds"]),
        batch=models["words"]["batch"],
        wordnet_ratio=wordnet["closeness"]["ratio"]["lexical_similarity"],
        python_ratio=python["closeness"]["ratio"]["lexical_similarity"],
        closeness=_closeness_table(results["data"]),
        gains=_gains_table(results["data"]),
        wordnet_low=min(default),
        wordnet_high=max(default),
        wordnet_chosen_low=min(chosen),
        wordnet_chosen_high=max(chosen),
        python_chosen_low=min(of_python),
        python_chosen_high=max(of_python),
        wordnet_above=100 * above["default"],
        wordnet_above_random=100 * above["random"],
        wordnet_above_margin=100 * above["relative_margin"],
    )


def _closeness(data: dict[str, Any]) -> dict[str, dict[str, float]]:
    return {name: of for name, of in data["closeness"].items() if name != "ratio"}


def _gains(data: dict[str, Any], *, default: bool) -> list[float]:
    """Return the differences in MRR of every model and loss."""
    judged = [found[loss] for found in data["models"].values() for loss in LOSSES]
    return [of["gain"]["default" if default else of["chosen"]]["mrr"]["mean"] for of in judged]


def _closeness_table(data: dict[str, Any]) -> str:
    rows = [
        "| text | negatives | overlap | BM25 score | above the positive | fallbacks |",
        "|---|---|---|---|---|---|",
    ]
    for name, of in data.items():
        for setting, found in _closeness(of).items():
            rows.append(
                f"| {TITLES[name]} | {SETTINGS[setting]} | {found['lexical_similarity']:.4f} | "
                f"{found['bm25_score']:.2f} | {100 * found['above_positive']:.0f} % | "
                f"{100 * found['fallbacks']:.0f} % |"
            )
        positive = of["closeness"]["random"]
        rows.append(
            f"| {TITLES[name]} | (the positives) | "
            f"{positive['lexical_similarity_of_positive']:.4f} | "
            f"{positive['bm25_score_of_positive']:.2f} | | |"
        )
    return "\n".join(rows)


def _gains_table(data: dict[str, Any]) -> str:
    rows = [
        "| text | model, loss | untrained | random | BM25, default | BM25, chosen |",
        "|---|---|---|---|---|---|",
    ]
    for name, of in data.items():
        for model, found in of["models"].items():
            untrained = found["untrained"]["test"]["mrr"]["mean"]
            for loss, title in LOSSES.items():
                judged = found[loss]
                cells = [_cell(judged, "default"), _cell(judged, judged["chosen"])]
                random = judged["test"]["random"]["mrr"]["mean"]
                rows.append(
                    f"| {TITLES[name]} | {NAMES[model]}, {title} | {untrained:.3f} | "
                    f"{random:.3f} | {' | '.join(cells)} |"
                )
    return "\n".join(rows)


def _cell(judged: dict[str, Any], setting: str) -> str:
    of, gain = judged["test"][setting]["mrr"]["mean"], judged["gain"][setting]["mrr"]
    note = "" if setting == "default" else f" ({SETTINGS[setting].removeprefix('BM25, ')})"
    return f"{of:.3f}: {gain['mean']:+.3f} ± {gain['standard_error']:.3f}{note}"


GATES = """
## Gates

One run of `benchmarks/quality_gates.py`: {documents:,} documents of {characters:,} characters. Two
thirds are prose, and two in five of these texts repeat themselves. One third are source files and pages.

| measurement | documents per second of processor time |
|---|---|
{rates}

With all gates except language, an ingest takes {times:.1f} times the processor time. Short rows:

| rows | processor time without gates | with | peak without | with | other thresholds |
|---|---|---|---|---|---|
{intakes}
{datatrove}"""
AGREED = """
The table compares with datatrove's own filters on the same documents. All four of them do
{theirs:,.0f} documents per second of processor time:

| preset | decided alike | rejected here | rejected by datatrove |
|---|---|---|---|
{rows}
"""
RATES = {
    "all_gates_without_language": "all gates without language, measured and decided",
    "all_gates": "with language",
    "tokens_and_repetition_alone": "tokens and n-grams alone",
    "decided_from_metrics": "decided from stored metrics",
}


def gates_section(found: dict[str, Any]) -> str:
    """Return the section for the output of ``quality_gates.py``."""
    rates = [f"| {t} | {found['rates'][n]:,.0f} |" for n, t in RATES.items() if n in found["rates"]]
    intakes = []
    for name, pair in found["intakes"].items():
        plain, gated = pair["plain"], pair["gated"]
        if name != "documents":
            intakes.append(
                f"| {int(name):,} | {plain['processor_seconds']:.1f} s | "
                f"{gated['processor_seconds']:.1f} s | {plain['peak_mb']:,} MB | "
                f"{gated['peak_mb']:,} MB | {gated['judge_seconds']:.1f} s |"
            )
    return GATES.format(
        documents=found["documents"],
        characters=found["characters"],
        rates="\n".join(rates),
        times=found["intakes"]["documents"]["times"],
        intakes="\n".join(intakes),
        datatrove=_agreed(found.get("datatrove")),
    )


def _agreed(found: dict[str, Any] | None) -> str:
    if found is None:
        return ""
    rows = [
        f"| {preset} | {100 * of['agreed']:.1f} % | {of['rejected_by_us']} | "
        f"{of['rejected_by_datatrove']} |"
        for preset, of in found.items()
        if isinstance(of, dict)
    ]
    return AGREED.format(theirs=found["datatrove_rate_of_all_four_filters"], rows="\n".join(rows))
