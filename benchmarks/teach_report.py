"""Writes docs/teach.md from teach.json, teach_transformer.json and advise.json.

python benchmarks/teach_report.py
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import advise
import numpy as np
from teach import ARMS, CORPORA, DECIDING, FEWER, MINED_AT, PLANTED
from teach_corpora import LONG

HERE = Path(__file__).parent
RESULTS = HERE / "teach.json"
TRANSFORMER = HERE / "teach_transformer.json"
ADVICE = HERE / "advise.json"
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
    "manual": "Manual pages",
    "collection": "WordNet, a collection",
}
WHAT = {
    "debian": "short description → long description of a package",
    "wordnet": "words of a synset → gloss",
    "python": "name and signature → first paragraph of the docstring",
    "gcide": "headword → first senses",
    "foldoc": "term of computing → its description",
}
FIGURES = {
    "positive_rank": ("median rank of the positive, where ranked", "{:.0f}"),
    "unranked": ("anchors whose positive shares no term", "{:.0%}"),
    "above_positive": ("candidates (first 16) above the positive", "{:.0%}"),
    "first_above_positive": ("anchors whose first candidate is above the positive", "{:.0%}"),
}

TEXT = """# Experiments with negatives

This page is for people who must choose negatives. It shows the gain of each choice on several corpora,
and where advice errs. The answer depends on the corpus. So ask for your own corpus first.

## Ask for your corpus

```sh
duckplets demo --keep teach.duckdb
duckplets advise teach.duckdb --seconds 1 --write negatives.toml
```

[`duckplets advise`](advise.md) tries eight ways to draw negatives on a sample of your corpus. It needs
minutes, and neither PyTorch nor a GPU. It recommends one way, or says that there is nothing to gain.
`--write` stores the recommendation as a run file for `--config`. The answer names the commands that
must come first: `duckplets mine`, or `duckplets embed` and `duckplets mine --by default`.

## Where the advice errs

{advice}

## How it was measured

A small model is a mean of word vectors: {dimension} numbers for each of {vocabulary:,} word pieces. It
is trained **from nothing**, in {steps} batches of {batch}. The loss is a softmax over the positives and
negatives of the whole batch. Two arms differ in the arguments of `sampler(…)` only. Then the anchors
of the test split rank the texts of all splits. Equal texts count once, and so do the texts of one
`group_key`. `benchmarks/teach.py` measures, and `benchmarks/teach_report.py` writes this page.

{corpora}

Figures are nDCG@10 in hundredths. The model of the column `in-batch` has the other samples of its
batch as its only negatives.

## What was found

{found}

Each arm is compared with another arm that differs in one thing. They are compared query by query. The
last number in a cell counts the seeds. The interval of 95 % draws families of queries
(`dp.compare`). It does not include the spread over seeds: figures of one arm have a standard
deviation of {deviation:.2f} over seeds ({deviations} times several seeds). **Bold**: the interval
excludes 0. Arms with ten seeds decide. All their runs on a corpus share a tokenizer and candidates.

{table}

*Dense* candidates are ranked by a model that the arm *in-batch negatives only* has trained with its
first seed. So they cost one more training. The candidates *mined again* are ranked by the model that
*1 dense* has trained with its first seed.

Batches of one *length* take one of 16 classes of tokens (`batch_by=`). Share of samples in mixed
batches, as means of the corpora: {mixed}. Each of these corpora is one source. So batches of one
source are not measured.

*Mined again on the way* embeds and mines with the model in training at steps {mined_at}. The run then
draws these candidates (`take_minings()`). {run_again}

{aim}

```
{plot}
```

The next table has less of the same text, with the same number of batches:

{sizes}

## False negatives, planted

In one record of each family, each text of {long} characters and more was cut in two. The second half
became a record without an anchor. It is a true answer without a label, and a run may draw it as a
negative. The evaluation counts both halves as answers. `corpus.relabel` then labels every pair, on a
copy. With `positive`, a half in the split of its anchor becomes another positive. With `ambiguous`, a
half is only excluded from the negatives.

{planted}

{planted_table}

{worth}

## A small transformer

{transformer}

## No figure tells beforehand

The table compares figures of a mining with the gain of its candidates:

{figures}

{word}
"""


def page(
    results: dict[str, Any] | None = None,
    of_transformer: dict[str, Any] | None = None,
    of_advice: dict[str, Any] | None = None,
) -> str:
    """Return the page."""
    found = results or json.loads(RESULTS.read_text(encoding="utf-8"))
    transformer = of_transformer or json.loads(TRANSFORMER.read_text(encoding="utf-8"))
    advice = of_advice or json.loads(ADVICE.read_text(encoding="utf-8"))
    there = [name for name in CORPORA if name in found["corpora"]]
    planted = [name for name in there if name in PLANTED]
    every = [name for name in there if name not in PLANTED]
    names = [name for name in every if name not in FEWER]
    fewer = [name for name in every if name.split("_")[0] + "_small" in FEWER]
    deviations = _deviations(found)
    return TEXT.format(
        **found["settings"],
        advice=_advice(advice),
        found=_found(found, names),
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


def _advice(results: dict[str, Any]) -> str:
    """Return how the recommended arm compares with the best one of the experiments, by corpus."""
    arms = {key: title for title, key in advise.OURS.items()}
    of = advise.verdict(results)
    rows = [["corpus", "recommended", "sure", "best in the experiments", "recommended less best"]]
    rows[0] += ["less in-batch", "less 1 random"]
    for name, found in of["corpora"].items():
        told = results["advice"][name]
        cells = [
            ""
            if row is None
            else f"{row['difference']:+.1f} ({row['low']:+.1f} … {row['high']:+.1f})"
            for row in (found["less"].get(arm) for arm in (found["best"], "pairs", "random_1"))
        ]
        rows.append(
            [TITLES[name], told["recommended"], f"{told['sure']:.2f}", arms[found["best"]], *cells]
        )
    text = (
        f"`make bench-advise` asks for advice on {len(advise.CORPORA)} corpora. The setup of this page "
        f"finds the best of the eight arms with seeds {min(advise.CHOOSING)} to "
        f"{max(advise.CHOOSING)}. It compares this arm with the recommended one on seeds "
        f"{min(advise.JUDGING)} to {max(advise.JUDGING)}. The aim: at most {advise.TOLERATED} below the "
        f"best arm on {advise.ENOUGH} corpora, and nowhere below in-batch negatives or random ones."
    )
    if not of["judged"]:
        return (
            f"{text} No corpus is judged yet: `advise.json` has {len(results['runs'])} runs of "
            f"{_listed([TITLES[name] for name in results['advice']])}."
        )
    far = [TITLES[name] for name in of["judged"] if name not in of["near"]]
    harmed = [TITLES[name] for name in of["harmed"]]
    end = (
        f"{len(of['judged'])} corpora are judged. The advice is near the best arm on "
        f"{len(of['near'])}. It errs on: {_listed(far) if far else 'none'}. It does harm on: "
        f"{_listed(harmed) if harmed else 'none'}. The aim is {'reached' if of['held'] else 'missed'}."
    )
    return f"{text} {end}\n\n{_rows(*rows)}"


def _found(found: dict[str, Any], names: list[str]) -> str:
    """Return a list of how often each policy was better and worse than random negatives."""
    lines = []
    for arm in ("random_1", "random_4", "bm25_1", "bm25_4", "dense_1", "dense_4"):
        every = [d for name in names if (d := _difference(found, name, arm))]
        better = sum(low > 0 for _, low, _ in every)
        worse = sum(high < 0 for *_, high in every)
        gains = [mean for mean, *_ in every]
        lines.append(
            f"- *{ARMS[arm].title}* was better than *{ARMS[ARMS[arm].beside].title}* on {better} of "
            f"{len(every)} corpora, and worse on {worse}. The gain was {min(gains):+.1f} to "
            f"{max(gains):+.1f}."
        )
    return "\n".join(lines)


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
    return f"{text} ({low:+.1f} … {high:+.1f}, {seeds})"


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
        f"Arms with fewer seeds were run earlier, on other machines. There, the arm that they are "
        f"compared with was run again. These {len(more)} runs differ from the runs of equal seed here "
        f"by {np.mean(more):+.2f} on the mean, with a standard deviation of {np.std(more):.2f}. One "
        f"reason: each machine trained its own tokenizer."
    )


def _transformer(found: dict[str, Any], static: dict[str, Any], names: list[str]) -> str:
    """Say what is different with a transformer."""
    of = found["settings"]
    there = [name for name in names if name in found["compared"]]
    rates: dict[tuple[float, int], list[str]] = {}
    for run in found.get("tried", ()):
        said = f"{100 * run[METRIC]:.1f} on {TITLES[run['corpus']]}"
        rates.setdefault((run["rate"], run["steps"]), []).append(said)
    tried = " ".join(f"{rate:g}: {_listed(of)}." for (rate, _), of in sorted(rates.items()))
    text = (
        f"The model is a BERT of {of['layers']} layers and {of['dimension']} numbers, from a random "
        f"start. Its vector is the mean of its last states. The rest of the setup is the same, in "
        f"bfloat16 on a GPU, from {of['steps']:,} batches of {of['batch']}. The rate is "
        f"{of['rate']:g} after a tenth of warm-up. *Dense* candidates are ranked by the first seed of its own "
        f"*{ARMS['pairs'].title}*. "
    )
    if tried:
        text += f"This rate was the best of those tried, with one seed of that arm each. {tried} "
    if of_seeds := _deviations(found):
        text += (
            f"Figures of one arm have a standard deviation of {_spread(of_seeds):.2f} over seeds."
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
            said.append(f"- {mean:+.1f}: *{of.title}*")
    return (
        "Gain of relabelling, on the mean of these corpora:\n\n" + "\n".join(said) if said else ""
    )


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
        f"The aim was a policy that gains 2 points over the same number of random negatives on two "
        f"corpora, and 1 point on three. It should do harm on none. *{ARMS[best].title}* comes "
        f"nearest. It gains 2 points on {two} and 1 point on {one} of {len(names)} corpora, and does "
        f"harm on {-below}."
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
    listed = "\n".join(f"- {value:+.2f}: {title}" for title, value in told.items())
    end = f"None reaches {CLEAR}. So no figure of a mining predicts the gain."
    if clear:
        end = f"At {CLEAR} and more: {_listed(clear)}."
    return (
        f"Rank correlation (Spearman's) with the gain of one BM25 negative, over {len(gains)} "
        f"corpora:\n\n{listed}\n\n{end}"
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
