"""Write the card of a run: sources, licences, versions, digests, and contamination."""

from __future__ import annotations

from pathlib import Path

from duckplets.base.atomic import written_aside
from duckplets.base.markdown import plain, table
from duckplets.corpus.corpus import Corpus
from duckplets.export.card import card, drawn_from
from duckplets.proof.drawn import texts_of
from duckplets.runs.sampler import Sampler
from duckplets.sources.memory import MemorySource


def write_card(corpus: Corpus, sampler: Sampler, file: Path, against: Path | None = None) -> None:
    """Write a Markdown file about what a run drew so far.

    Args:
        corpus: The corpus of the run.
        sampler: The run.
        file: The file.
        against: A BEIR folder, or a file that ``drawn`` reads. The card counts the records of the
            newest version that share an n-gram of 13 words with its texts.

    Raises:
        SamplerError: The run is over token shards.
        SourceError: There is no such evaluation set, or no text of it has 13 words.
    """
    certificate = sampler.certificate()
    contents = drawn_from(sampler, 0, sampler.position)
    lines = [card(corpus, f"Run {certificate.run['run']}", contents)]
    roots = certificate.records["roots"].items()
    rows = [
        {"source": name, "version": version, **root}
        for name, own in roots
        for version, root in own.items()
    ]
    lines += ["## Records and their roots", "", *table(rows, len(rows))]
    digests = {**certificate.outside, "batches": certificate.links[-1] if certificate.links else ""}
    rows = [{"part": name, "digest": digest} for name, digest in digests.items()]
    lines += ["", "## Digests", "", *table(rows, len(rows)), "", "## Contamination", ""]
    if against is None:
        lines.append("It was not measured: no evaluation set was given.")
    else:
        texts: Path | MemorySource = against
        if not against.is_dir():
            texts = MemorySource([{"text": text} for text in texts_of(against)], text="text")
        found = corpus.decontaminate(texts, dry_run=True, progress=False)
        lines += [f"By n-grams of {found.ngram} words:", "", *table(found.sets, len(found.sets))]
        lines += (f"\n{plain(note)}" for note in found.notes)
    with written_aside(file) as stream:
        stream.write(("\n".join(lines) + "\n").encode("utf-8", "backslashreplace"))
