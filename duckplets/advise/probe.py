"""Train a mean of word vectors from random values, in NumPy: the model of ``advise``.

texts ─Words→ pieces of terms ─mean→ unit vectors ─softmax over the batch→ loss ─Adagrad→

Sums have a fixed order and BLAS one thread (``threadpool_limits``), so a seed gives the same bits
on one machine with any number of threads.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.base.arrays import Integers, stretches, turns
from duckplets.search.analyzer import Vocabulary
from duckplets.search.analyzer_settings import Terms

WORDS = 30_000  # rows of the table; terms and their pieces are hashed to rows
DIMENSION, TERMS = 64, 32
# Of Adagrad; of a cosine (of 6, 7, 10, 14 and 20 the best nDCG without negatives); of the initial
# vectors.
RATE, SCALE, SPREAD = 0.1, 10.0, 0.1

_BYTES = 4 << 20  # of texts analysed together
_CHARACTERS = 2_000  # of a text; its first tokens come from these
_ROWS = 16_384  # texts encoded together
_PIECES = 6  # most pieces of a term
_OFTEN = 16  # a matrix product adds words that are in a batch more often

Tokens: TypeAlias = npt.NDArray[np.uint16]  # (texts, pieces), ascending, then WORDS
Singles: TypeAlias = npt.NDArray[np.float32]


class Words:
    """The first terms of texts with their pieces, by the terms of a corpus, as rows of the table.

    A term counts as itself and as its first runs of three characters, ends included (Bojanowski
    and others, Enriching Word Vectors with Subword Information, 2017).
    """

    def __init__(self, terms: Terms) -> None:
        self._vocabulary = Vocabulary(terms)

    def close(self) -> None:
        """Release the terms."""
        self._vocabulary.close()

    def tokens(self, texts: pa.Array) -> Tokens:
        """Return the pieces of the first terms of each text, padded with ``WORDS``."""
        texts = pc.utf8_slice_codeunits(texts, 0, _CHARACTERS)
        keys = np.full((len(texts), TERMS), -1, np.int32)
        sizes = pc.binary_length(texts).to_numpy(zero_copy_only=False)
        for part in stretches(sizes, rows=_ROWS, total=_BYTES):
            words = self._vocabulary.read(texts[part]).known()
            place = turns(words.text.astype(np.int64))
            first = place < TERMS
            keys[part.start + words.text[first], place[first]] = words.key[first]
        pieces = _pieces(self._vocabulary.terms(0, self._vocabulary.size))
        found = pieces[keys].reshape(len(texts), -1)  # key -1 selects the last row, without pieces
        found.sort(axis=1)
        return found


def _pieces(terms: pa.Array) -> Tokens:
    """Return the rows of each term, by its number, and of its pieces; then an empty row."""
    found = np.full((len(terms) + 1, 1 + _PIECES), WORDS, np.uint16)
    found[:-1, 0] = np.arange(len(terms)) % WORDS
    width = _PIECES + 2
    ends = [pa.scalar("^"), terms, pa.scalar("$"), pa.scalar("")]
    texts = pc.utf8_slice_codeunits(pc.binary_join_element_wise(*ends), 0, width)
    letters = np.array(texts.to_pylist(), f"U{width}").view(np.uint32).reshape(-1, width)
    for first in range(_PIECES):
        hashed = np.zeros(len(terms), np.uint64)
        for place in range(first, first + 3):
            hashed = hashed * np.uint64(0x100000001B3) + letters[:, place]
        is_piece = letters[:, first + 2] > 0
        found[:-1, 1 + first][is_piece] = hashed[is_piece] % np.uint64(WORDS)
    return found


class Probe:
    """Word vectors in training; only the seed and the batches determine them.

    Args:
        seed: Seed of the initial vectors.
    """

    def __init__(self, seed: int) -> None:
        draw = np.random.default_rng(seed)
        self.table = draw.standard_normal((WORDS, DIMENSION), np.float32)
        self.table *= np.float32(SPREAD)
        self._squares = np.zeros((WORDS, 1), np.float32)

    def encode(self, tokens: Tokens) -> Singles:
        """Return the unit vector of each text; 0 for one without a term."""
        parts = (tokens[low : low + _ROWS] for low in range(0, len(tokens), _ROWS))
        found = [_unit(self._means(part))[0] for part in parts]
        return np.concatenate(found) if found else np.zeros((0, DIMENSION), np.float32)

    def loss(self, tokens: Tokens, anchors: int) -> tuple[float, Singles]:
        """Return the mean loss of a batch, and its gradient by the means of word vectors.

        Args:
            tokens: Tokens of the anchors, then of their positives, then of negatives.
            anchors: Number of anchors.
        """
        vectors, lengths = _unit(self._means(tokens))
        queries, documents = vectors[:anchors], vectors[anchors:]
        scores = SCALE * (queries @ documents.T)
        scores -= scores.max(axis=1, keepdims=True)
        own = np.arange(anchors)
        targets = scores[own, own].copy()
        np.exp(scores, out=scores)
        totals = scores.sum(axis=1)
        loss = float(np.mean(np.log(totals) - targets, dtype=np.float64))
        scores /= totals[:, None]
        scores[own, own] -= 1
        scores *= scores.dtype.type(SCALE / anchors)
        slopes = np.concatenate([scores @ documents, scores.T @ queries])
        slopes -= vectors * (slopes * vectors).sum(axis=1, keepdims=True)
        slopes /= lengths
        return loss, slopes

    def learn(self, tokens: Tokens, anchors: int) -> float:
        """Take a step of Adagrad on a batch and return its loss; see ``loss``."""
        loss, slopes = self.loss(tokens, anchors)
        rows, gradient = self.by_word(tokens, slopes)
        squares = self._squares[rows] + (gradient * gradient).mean(axis=1, keepdims=True)
        self._squares[rows] = squares
        self.table[rows] -= np.float32(RATE) * gradient / (np.sqrt(squares) + np.float32(1e-8))
        return loss

    @staticmethod
    def by_word(tokens: Tokens, slopes: Singles) -> tuple[Integers, Singles]:
        """Return the words of a batch, ascending, and the gradient by the vector of each."""
        is_word = tokens < WORDS
        counts = np.maximum(is_word.sum(axis=1), 1).astype(np.float32)
        slopes = slopes / counts[:, None]
        words, texts = tokens[is_word], np.nonzero(is_word)[0]
        order = np.argsort(words, kind="stable")
        words, texts = words[order], texts[order]
        first = np.flatnonzero(np.diff(words.astype(np.int64), prepend=-1))
        times = np.diff(first, append=len(words))
        found = np.zeros((len(first), DIMENSION), slopes.dtype)
        rare = np.flatnonzero(times <= _OFTEN)
        for turn in range(_OFTEN):  # three times as fast as np.add.reduceat
            some = rare[times[rare] > turn]
            found[some] += slopes[texts[first[some] + turn]]
        often = np.flatnonzero(times > _OFTEN)
        rows = np.repeat(np.arange(len(often)), times[often]) * len(slopes)
        rows += texts[np.repeat(times > _OFTEN, times)]
        counted = np.bincount(rows, minlength=len(often) * len(slopes))
        found[often] = counted.reshape(len(often), len(slopes)).astype(slopes.dtype) @ slopes
        return words[first].astype(np.int64), found

    def _means(self, tokens: Tokens) -> Singles:
        counts = (tokens < WORDS).sum(axis=1)
        order = np.argsort(-counts, kind="stable")
        ordered = tokens[order]
        totals = np.zeros((len(tokens), DIMENSION), self.table.dtype)
        for place in range(int(counts.max(initial=0))):
            longer = int(np.searchsorted(-counts[order], -place))
            totals[:longer] += self.table[ordered[:longer, place]]
        found = np.empty_like(totals)
        found[order] = totals
        found /= np.maximum(counts, 1).astype(np.float32)[:, None]
        return found


def _unit(means: Singles) -> tuple[Singles, Singles]:
    """Return unit vectors and the original lengths; 0 stays 0."""
    lengths = np.sqrt((means * means).sum(axis=1, keepdims=True))
    lengths[lengths == 0] = 1
    return means / lengths, lengths
