"""Writes docs/teach.md from teach.json and teach_transformer.json.

python benchmarks/teach_report.py
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from teach import ARMS, CORPORA, DECIDING, FEWER, MINED_AT, PLANTED
from teach_corpora import LONG

HERE = Path(__file__).parent
RESULTS = HERE / "teach.json"
TRANSFORMER = HERE / "teach_transformer.json"
PAGE = HERE.parent / "docs" / "teach.md"

METRIC = "ndcg@10"
PLOTTED = ("bm25_1", "bm25_4", "dense_1", "dense_4", "again")
SIZED = ("random_1", "bm25_1", "bm25_4", "dense_1")
WIDTH = 41  # characters of the plot
CLEAR = 0.8  # a correlation of ranks from which on the page names a figure

TITLES = {
    "debian": "Debian",
    "wordnet": "WordNet",
    "python": "Python",
    "gcide": "GCIDE",
    "foldoc": "FOLDOC",
    "debian_medium": "Debian, a third",
    "debian_small": "Debian, a ninth",
    "gcide_medium": "GCIDE, a third",
    "gcide_small": "GCIDE, a ninth",
    "debian_planted": "Debian, halved",
    "gcide_planted": "GCIDE, halved",
    "foldoc_planted": "FOLDOC, halved",
}
WHAT = {
    "debian": "short description → long description of a package",
    "wordnet": "words of a synset → gloss",
    "python": "name and signature → first paragraph of the docstring",
    "gcide": "headword → first senses",
    "foldoc": "term of computing → what is said of it",
}
FIGURES = {
    "positive_rank": ("median rank of the positive, where ranked", "{:.0f}"),
    "unranked": ("anchors whose positive shares no term", "{:.0%}"),
    "above_positive": ("candidates (first 16) above the positive", "{:.0%}"),
    "first_above_positive": ("anchors whose first candidate is", "{:.0%}"),
}

TEXT = """# What negatives teach

A small model (a mean of word vectors: {dimension} numbers for each of {vocabulary:,} word pieces) is
trained **from nothing**, in {steps} batches of {batch}, by a softmax over the positives and negatives
of the whole batch. Two arms differ only in what `sampler(…)` was asked for. Then the anchors of the
test split rank the texts of all splits, equal texts and those of one `group_key` once.
What is worth it on a corpus of your own is said by [`duckplets advise`](advise.md), in minutes and
without PyTorch. `benchmarks/teach.py` measures, and `benchmarks/teach_report.py` writes this page.

{corpora}

Figures are nDCG@10 in hundredths; `in-batch` is that of a model which has no negatives but the other
samples of its batch.

## Differences

Each arm is compared with the one it differs from by one thing, query by query, by the means of as
many seeds as stand after the semicolon. The interval of 95 % draws families of queries
(`dp.compare`) and says nothing of seeds: over these, figures of one arm have a standard deviation of
{deviation:.2f} ({deviations} times several seeds). **Bold**: the interval has no 0 in it. Arms with
ten seeds decide; all their runs on a corpus share a tokenizer and candidates.

{table}

*Dense* candidates are ranked by the model that the first seed of the arm *in-batch negatives only*
has trained, so they cost a training more; those *mined again* by the model that the first seed of
*1 dense* has trained.

Batches of one *length* take one of 16 classes of tokens (`batch_by=`). Samples in mixed batches, as
means of the corpora: {mixed}. Each of these corpora is one source, so that batches of one source are
not measured.
*Mined again on the way* embeds and mines with the model in training at steps {mined_at}, and goes
on with these candidates (`take_minings()`). {run_again}

{aim}

```
{plot}
```

Less of the same text, with as many batches:

{sizes}

## False negatives, planted

Of one record a family, each text of {long} characters and more was cut in two. The second half is a
record of its own that has no anchor: a true answer that nobody labelled, and that may be drawn as
a negative. When judging, both halves are answers. `corpus.relabel` then says so of every pair,
on a copy: `positive` lets the halves that stand in the split of their anchor be its positives too,
`ambiguous` only keeps them from being negatives.

{planted}

{planted_table}

{worth}

## A small transformer

{transformer}

## A word beforehand

What a mining says of its candidates, and what they were worth:

{figures}

{word}
"""


def page(
    results: dict[str, Any] | None = None, of_transformer: dict[str, Any] | None = None
) -> str:
    """Return the page."""
    found = results or json.loads(RESULTS.read_text(encoding="utf-8"))
    transformer = of_transformer or json.loads(TRANSFORMER.read_text(encoding="utf-8"))
    there = [name for name in CORPORA if name in found["corpora"]]
    planted = [name for name in there if name in PLANTED]
    every = [name for name in there if name not in PLANTED]
    names = [name for name in every if name not in FEWER]
    fewer = [name for name in every if name.split("_")[0] + "_small" in FEWER]
    deviations = _deviations(found)
    return TEXT.format(
        **found["settings"],
        corpora=_corpora(found, every),
        table=_table(found, names, ARMS),
        mixed=_mixed(found, names),
        mined_at=" and ".join(map(str, MINED_AT)),
        run_again=_run_again(found),
        aim=_aim(found, names),
        plot=_plot(found, names),
        sizes=_table(found, fewer, SIZED),
        figures=_figures(found, every),
        word=_word(found, every),
        long=LONG,
        planted=_planted(found, planted),
        planted_table=_table(found, planted, ARMS),
        worth=_worth(found, planted),
        transformer=_transformer(transformer, found, names),
        deviation=_spread(deviations) if deviations else 0,
        deviations=len(deviations),
    )


def _rows(*rows: list[str]) -> str:
    head, *others = rows
    lines = [head, ["---"] * len(head), *others]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _means(found: dict[str, Any], corpus: str, arm: str) -> list[float]:
    runs = [run for run in found["runs"] if (run["corpus"], run["arm"]) == (corpus, arm)]
    return [100 * run[METRIC] for run in runs]


def _deviations(found: dict[str, Any]) -> list[float]:
    """Return the standard deviation over seeds of every corpus and arm with several."""
    every = {(run["corpus"], run["arm"]) for run in found["runs"]}
    of = [_means(found, *which) for which in sorted(every)]
    return [
        (sum((x - sum(some) / len(some)) ** 2 for x in some) / (len(some) - 1)) ** 0.5
        for some in of
        if len(some) > 1
    ]


def _spread(deviations: list[float]) -> float:
    return float(np.sqrt(np.mean(np.square(deviations))))


def _mean(values: list[float]) -> str:
    return f"{sum(values) / len(values):.1f}" if values else ""


def _corpora(found: dict[str, Any], names: list[str]) -> str:
    head = [
        "corpus",
        "anchor → positive",
        "records",
        "documents",
        "queries",
        "families",
        "in-batch",
    ]
    rows = []
    for name in names:
        of = found["corpora"][name]
        sizes = [f"{of[key]:,}" for key in ("records", "documents", "queries", "families")]
        rows.append(
            [
                TITLES[name],
                WHAT.get(name, "the same, fewer of them"),
                *sizes,
                _mean(_means(found, name, "pairs")),
            ]
        )
    return _rows(head, *rows)


def _difference(found: dict[str, Any], corpus: str, arm: str) -> tuple[float, float, float] | None:
    of = found["compared"].get(corpus, {}).get(arm)
    if of is None:
        return None
    (row,) = (row for row in of["metrics"] if row["metric"] == METRIC)
    low, high = 100 * row["low"], 100 * row["high"]
    return 100 * row["difference"], low, high


def _cell(found: dict[str, Any], corpus: str, arm: str) -> str:
    if (difference := _difference(found, corpus, arm)) is None:
        return ""
    mean, low, high = difference
    seeds = found["compared"][corpus][arm]["seeds"]
    text = f"{mean:+.1f}" if low <= 0 <= high else f"**{mean:+.1f}**"
    return f"{text} ({low:+.1f} … {high:+.1f}; {seeds})"


def _table(found: dict[str, Any], names: list[str], arms: Iterable[str]) -> str:
    rows = []
    for arm in arms:
        of = ARMS[arm]
        cells = [_cell(found, name, arm) for name in names]
        if any(cells):
            rows.append([of.title, ARMS[of.beside].title, *cells])
    head = ["arm", "less", *(TITLES[name] for name in names)]
    return _rows(head, *rows)


def _mixed(found: dict[str, Any], names: list[str]) -> str:
    """Return the share of samples in mixed batches, of each arm whose batches have keys."""
    of: dict[str, list[float]] = {}
    for run in found["runs"]:
        if run["corpus"] in names and "mixed" in run:
            of.setdefault(run["arm"], []).append(run["mixed"])
    return ", ".join(f"{np.mean(of[arm]):.0%} ({ARMS[arm].title})" for arm in ARMS if arm in of)


def _run_again(found: dict[str, Any]) -> str:
    """Say how figures differ of what was run again on another machine."""
    first = {(run["corpus"], run["arm"], run["seed"]): 100 * run[METRIC] for run in found["runs"]}
    more = [
        100 * run[METRIC] - first[run["corpus"], run["arm"], run["seed"]]
        for run in found.get("run_again", ())
    ]
    if not more:
        return ""
    return (
        f"Arms with fewer seeds were run earlier, on other machines, beside runs there of the arm "
        f"they are compared with: {len(more)} of those differ from the ones of equal seed here by "
        f"{np.mean(more):+.2f} on the mean, with a standard deviation of {np.std(more):.2f} (the "
        f"tokenizer, trained anew, has not quite the same pieces)."
    )


def _transformer(found: dict[str, Any], static: dict[str, Any], names: list[str]) -> str:
    """Say what is different with a transformer."""
    of = found["settings"]
    there = [name for name in names if name in found["compared"]]
    rates: dict[tuple[float, int], list[str]] = {}
    for run in found.get("tried", ()):
        said = f"{100 * run[METRIC]:.1f} on {TITLES[run['corpus']]}"
        rates.setdefault((run["rate"], run["steps"]), []).append(said)
    tried = "; ".join(f"{rate:g}: {_listed(of)}" for (rate, _), of in sorted(rates.items()))
    text = (
        f"A BERT of {of['layers']} layers and {of['dimension']} numbers, from a random start, with "
        f"the mean of its last states, in the same laboratory: {of['steps']:,} batches of "
        f"{of['batch']}, with a rate of {of['rate']:g} after a tenth of warm-up, in bfloat16 on a GPU. "
        f"*Dense* candidates are those of its own first seed of *{ARMS['pairs'].title}*. "
    )
    if tried:
        text += f"Of the rates tried, one seed of that arm each, it is the best ({tried}). "
    if of_seeds := _deviations(found):
        text += (
            f"Over seeds, figures of one arm have a standard deviation of {_spread(of_seeds):.2f}."
        )
    kinds = {"word vectors": static, "transformer": found}
    in_batch = [
        [kind, *(_mean(_means(runs, name, "pairs")) for name in there)]
        for kind, runs in kinds.items()
    ]
    head = ["in-batch", *(TITLES[name] for name in there)]
    return f"{text}\n\n{_rows(head, *in_batch)}\n\n{_table(found, there, ARMS)}"


def _planted(found: dict[str, Any], names: list[str]) -> str:
    head = ["corpus", "records", "documents", "queries", "in-batch", "halves in train"]
    head += ["first candidate, dense", "of the first 16", "also left by the margin"]
    rows = []
    for name in names:
        of = found["corpora"][name]
        ranks = of["planted"]
        sizes = [f"{of[key]:,}" for key in ("records", "documents", "queries")]
        shares = [ranks["first"], ranks["first_16"], ranks["first_16_uncut"]]
        rows.append(
            [TITLES[name], *sizes, _mean(_means(found, name, "pairs")), f"{ranks['pairs']:,}"]
            + [f"{share:.0%}" for share in shares]
        )
    return _rows(head, *rows)


def _worth(found: dict[str, Any], names: list[str]) -> str:
    """Return what relabelling is worth on the mean of the corpora with planted halves."""
    said = []
    for arm, of in ARMS.items():
        every = [d[0] for name in names if of.verdict and (d := _difference(found, name, arm))]
        if every and len(every) == len(names):
            mean = sum(every) / len(every)
            said.append(f"{mean:+.1f} for *{of.title}*")
    return f"On the mean of these corpora relabelling was worth {'; '.join(said)}." if said else ""


def _aim(found: dict[str, Any], names: list[str]) -> str:
    """Say how near to the aim the policy comes, of the arms that decide, that is nearest to it."""
    counts = {}
    for arm, of in ((arm, ARMS[arm]) for arm in DECIDING):
        policy = of.by != "random" and of.beside.startswith("random")
        every = [d for name in names if policy and (d := _difference(found, name, arm))]
        above = [sum(mean >= least and low > 0 for mean, low, _ in every) for least in (2, 1)]
        below = sum(high < 0 for _, _, high in every)
        counts[arm] = (*above, -below, sum(mean for mean, _, _ in every))
    best = max(counts, key=counts.__getitem__)
    two, one, below, _ = counts[best]
    return (
        f"The aim was a policy worth 2 points more than as many random negatives on two corpora, "
        f"1 on three, and below random on none. *{ARMS[best].title}* comes nearest: no less than "
        f"2.00 on {two}, than 1.00 on {one}, below random on {-below}, of {len(names)}."
    )


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _plot(found: dict[str, Any], names: list[str]) -> str:
    """Return differences and their intervals as lines of text around 0."""
    every = {(a, n): d for a in PLOTTED for n in names if (d := _difference(found, n, a))}
    most = max((abs(x) for d in every.values() for x in d), default=1.0)
    middle, lines = WIDTH // 2, list[str]()

    def place(value: float) -> int:
        return middle + round(value / most * middle)

    for (arm, name), (mean, low, high) in every.items():
        line = [" "] * WIDTH
        line[place(low) : place(high) + 1] = "─" * (place(high) - place(low) + 1)
        line[middle], line[place(mean)] = "│", "●"
        lines.append(f"{ARMS[arm].title:<22}{TITLES[name]:<16}{''.join(line)} {mean:+.1f}")
    scale = f"{-most:+.1f}{'0':^{WIDTH - 10}}{most:+.1f}"
    return "\n".join([*lines, f"{'':<38}{scale}"])


def _figures(found: dict[str, Any], names: list[str]) -> str:
    head = ["figure", *(TITLES[name] for name in names)]
    rows = []
    for scorer in ("bm25", "dense"):
        for key, (title, form) in FIGURES.items():
            of = [found["corpora"][name]["scorers"].get(scorer) for name in names]
            cells = ["" if s is None or s[key] is None else form.format(s[key]) for s in of]
            if any(cells) and not (scorer == "dense" and key == "unranked"):
                rows.append([f"{title}, {'BM25' if scorer == 'bm25' else scorer}", *cells])
    shared = [found["corpora"][name]["scorers"].get("dense") for name in names]
    rows.append(
        [
            "dense candidates that are BM25's too (first 16)",
            *("" if s is None else f"{s['also_bm25']:.0%}" for s in shared),
        ]
    )
    near = [f"{found['corpora'][name]['near_equal']:.0%}" for name in names]
    rows.append(["records that are nearly equal to another", *near])
    for arm in ("bm25_1", "bm25_4", "dense_1"):
        gains = [_difference(found, name, arm) for name in names]
        cells = ["" if gain is None else f"{gain[0]:+.1f}" for gain in gains]
        rows.append([f"gain: {ARMS[arm].title}", *cells])
    return _rows(head, *rows)


def _word(found: dict[str, Any], names: list[str]) -> str:
    """Say which figures order the corpora as the gain of a BM25 negative does, if any."""
    gains = {name: d[0] for name in names if (d := _difference(found, name, "bm25_1"))}
    told = {}
    for key, (title, _) in FIGURES.items():
        values = [found["corpora"][name]["scorers"]["bm25"][key] for name in gains]
        told[title] = _spearman(values, [*gains.values()])
    for key, title in (("records", "records"), ("near_equal", "records that are nearly equal")):
        values = [found["corpora"][name][key] for name in gains]
        told[title] = _spearman(values, [*gains.values()])
    clear = [title for title, value in told.items() if abs(value) >= CLEAR]
    listed = ", ".join(f"{value:+.2f} for *{title}*" for title, value in told.items())
    end = f"None reaches {CLEAR}, so no figure of a mining says beforehand what it is worth."
    if clear:
        end = f"At {CLEAR} and more: {_listed(clear)}."
    return (
        f"Rank correlation (Spearman's) with the gain of one BM25 negative, over {len(gains)} "
        f"corpora: {listed}. {end}"
    )


def _spearman(one: list[float], other: list[float]) -> float:
    """Return the correlation of ranks, equal values at the mean of theirs; 0 without any."""
    ranks = [
        np.array([(np.less(of, x).sum() + np.less_equal(of, x).sum() + 1) / 2 for x in of])
        for of in (one, other)
    ]
    if min(len({*of}) for of in (one, other)) < 2:
        return 0.0
    return float(np.corrcoef(*ranks)[0, 1])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
