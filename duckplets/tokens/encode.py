"""Encode blocks of texts with a tokenizer into arrays."""

# The tokenizer uses all cores only while it encodes, so reading and extracting ids overlap with it.

from __future__ import annotations

import hashlib
import itertools
import tempfile
from collections.abc import Generator, Iterator
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from duckplets.base.arrays import Integers, Integers32
from duckplets.base.prefetch import ahead
from duckplets.engine.inline import INLINE, threaded
from duckplets.engine.protocol import Engine, Part, mapped
from duckplets.errors import DamagedFileError, EngineError, ShardError
from duckplets.text.chunking import open_tokenizer
from duckplets.tokens.documents import read_document
from duckplets.tokens.manifest import STATE, TOKENIZER, TokenizerEntry
from duckplets.tokens.texts import TextBlock

if TYPE_CHECKING:
    from tokenizers import Tokenizer


KIND = "a duckplets tokenizer"

# A tokenizer file does not say which tokens end a text and pad a row; these names are usual.
_ENDS = ("</s>", "<|endoftext|>", "<|end_of_text|>", "<eos>", "<|eos|>", "[EOS]", "[SEP]")
_PADS = ("<pad>", "[PAD]", "<|padding|>", "<|pad|>", "<|finetune_right_pad_id|>", "<|endoftext|>")


class TokenEncoder:
    """A tokenizer that adds nothing, and treats names of special tokens as text."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path) / TOKENIZER if Path(path).is_dir() else Path(path)
        open_tokenizer(str(self.path))  # raises an error for a wrong file
        self.content = self.path.read_bytes()
        digests = (training_note(self.path.parent) or {}).get("files", {})
        digest = hashlib.sha256(self.content).hexdigest()
        if digests.get(self.path.name, digest) != digest:
            raise DamagedFileError(
                f"{self.path} is not as it was written by the training; train again, or copy the "
                f"file to another folder to use it unchanged"
            )
        self.tokenizer = _tokenizer(self.content)

    def entry(self) -> TokenizerEntry:
        """Return its manifest entry."""
        eos, eos_id = self._first(_ENDS)
        pad, pad_id = self._first(_PADS)
        return TokenizerEntry(
            path=TOKENIZER,
            sha256=hashlib.sha256(self.content).hexdigest(),
            fingerprint=fingerprint(self.tokenizer),
            vocab_size=int(self.tokenizer.get_vocab_size()),
            eos=eos,
            eos_id=eos_id,
            pad=pad,
            pad_id=pad_id,
        )

    def _first(self, names: tuple[str, ...]) -> tuple[str | None, int | None]:
        for name in names:
            number = self.tokenizer.token_to_id(name)
            if number is not None:
                return name, int(number)
        return None, None


def training_note(folder: Path) -> dict[str, Any] | None:
    """Return the note of ``train_tokenizer`` in a folder, or None."""
    try:
        return read_document(folder / STATE, KIND)
    except ShardError:  # a document of another kind
        return None


def fingerprint(tokenizer: Tokenizer) -> str:
    """Return the SHA-256 of the saved model of a tokenizer: for BPE, vocabulary and merges."""
    digest = hashlib.sha256()
    with tempfile.TemporaryDirectory(prefix="duckplets-") as folder:
        try:
            names = tokenizer.model.save(folder)
        except Exception as error:  # the library has no class of its own
            raise ShardError(
                f"{folder}: the tokenizer cannot be written there: {error}; give a folder with "
                f"room as TMPDIR"
            ) from error
        for name in names:
            digest.update((Path(folder) / Path(name).name).read_bytes())
    return digest.hexdigest()


class Encoded(NamedTuple):
    """The tokens of some texts."""

    texts: list[str]  # cut where the tokens were cut
    tokens: Integers32  # of all texts, concatenated
    counts: Integers  # tokens of each text
    sums: Integers  # of the ids of each text
    cut: int  # number of texts cut
    spans: Integers32 | None  # first and end character of every token, with ``offsets``


class EncodeJob(NamedTuple):
    """Settings of encoding, for workers."""

    content: bytes  # of the tokenizer file
    most: int | None
    offsets: bool
    version: str  # of the package that encodes


def encoded(
    encoder: TokenEncoder,
    blocks: Iterator[TextBlock],
    *,
    most: int | None = None,
    offsets: bool = False,
    engine: Engine = INLINE,
) -> Generator[tuple[TextBlock, Encoded]]:
    """Yield blocks of texts with their tokens; a thread reads ahead."""
    from tokenizers import __version__

    job = EncodeJob(encoder.content, most, offsets, __version__)
    with (
        closing(ahead(blocks, "duckplets-texts")) as read,
        closing(mapped(threaded(engine, 2), encode_part, job, read, _part_of)) as found,
    ):
        yield from found


def _part_of(block: TextBlock) -> Part:
    last = block.low + len(block.texts) - 1
    return Part(f"encoding: texts {block.low:,} to {last:,}", block.texts)


def encode_part(job: EncodeJob, texts: list[str]) -> Encoded:
    """Encode texts, with the version of the package that the job names."""
    from tokenizers import __version__

    if __version__ != job.version:
        raise EngineError(
            f"a worker has tokenizers {__version__}, and this process {job.version}; their tokens "
            f"may differ: install the same version on all workers"
        )
    tokenizer = _tokenizer(job.content)
    encodings = tokenizer.encode_batch(texts, add_special_tokens=False)
    ids = [encoding.ids for encoding in encodings]
    counts = np.fromiter(map(len, ids), np.int64, len(ids))
    cut = 0
    if job.most is not None and (counts > job.most).any():
        texts = list(texts)
        for place in np.flatnonzero(counts > job.most).tolist():
            count, texts[place] = _cut(tokenizer, texts[place], encodings[place], job.most)
            ids[place] = ids[place][:count]
            counts[place] = count
            cut += 1
    total = int(counts.sum())
    tokens = np.fromiter(itertools.chain.from_iterable(ids), np.int32, total)
    ends = np.concatenate([[0], np.cumsum(tokens, dtype=np.int64)])
    sums = np.diff(ends[np.concatenate([[0], np.cumsum(counts)])])
    spans = None
    if job.offsets:
        counted = zip(encodings, counts.tolist(), strict=True)
        pairs = itertools.chain.from_iterable(e.offsets[:count] for e, count in counted)
        numbers = itertools.chain.from_iterable(pairs)
        spans = np.fromiter(numbers, np.int32, 2 * total).reshape(-1, 2)
    return Encoded(texts, tokens, counts, sums, cut, spans)


@lru_cache(maxsize=1)
def _tokenizer(content: bytes) -> Tokenizer:
    """Return a tokenizer that adds nothing and treats names of special tokens as text."""
    from tokenizers import Tokenizer

    tokenizer: Tokenizer = Tokenizer.from_buffer(content)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True
    return tokenizer


def _cut(tokenizer: Tokenizer, text: str, encoding: Any, most: int) -> tuple[int, str]:
    """Return the largest number of tokens up to ``most`` that end a character, and their text."""
    # A character may be several tokens, so trailing tokens are dropped until the others decode to a
    # prefix of the text. A tokenizer that changes texts has none: the last offset ends the text.
    for count in range(most, max(most - 4, 0), -1):
        decoded = tokenizer.decode(encoding.ids[:count], skip_special_tokens=False)
        if decoded and text.startswith(decoded):
            return count, decoded
    return most, text[: encoding.offsets[most - 1][1]]
