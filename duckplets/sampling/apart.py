"""Draw negatives of a batch again until they differ, also from its anchors and positives.

    draws ─conflicts→ again, a few hashed draws ─what is left→ places in turn, as in a matching

Anchors and positives stay, and so does the first of the negatives that have one text. What is drawn
again for a batch follows from that batch alone. Where hashed draws find nothing, a negative takes a
text that another one has, if that one can have yet another, and so on (Kuhn's augmenting paths): so
a batch is refused only if no choice of legal negatives is free of repeats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from duckplets.base.arrays import Flags, Integers, Words
from duckplets.errors import RecipeError
from duckplets.pools.arrays import pair_hashes
from duckplets.sampling.distinct import firsts
from duckplets.sampling.wanting import Found, Wanting

if TYPE_CHECKING:
    from duckplets.sampling.planned import Plan
    from duckplets.sampling.stream import Stream

NoDuplicates: TypeAlias = bool | Literal["negatives"]

_ROUNDS = 24  # of hashed draws; half of what can be drawn taken leaves one in 2^24


@dataclass(frozen=True, slots=True)
class Asked:
    """The samples of one stream within a plan.

    Attributes:
        rows: Which of the plan's.
        stream: Their stream.
        wanting: They themselves.
    """

    rows: Integers
    stream: Stream
    wanting: Wanting


def apart(
    draws: Plan, asked: Sequence[Asked], *, batch: int, per_draw: int, start: int, stop: int
) -> Plan:
    """Return the draws with negatives that differ within each batch.

    Args:
        draws: Of the kind ``triplets``, or of pairs before they are spread over theirs. Those that
            come as they were judged are let be, too.
        asked: The draws by stream.
        batch: Positions a batch.
        per_draw: Positions a draw.
        start: First position of a batch; draws before it are let be.
        stop: The end of the last batch; draws from it on are let be.

    Raises:
        RecipeError: Of some batch the legal negatives are too few.
    """
    batches = _Batches(draws, asked, batch, per_draw, (start, stop))
    todo = batches.conflicts()
    if len(todo) == 0:
        return draws
    for attempt in range(_ROUNDS):
        todo = batches.again(todo, attempt)
        if len(todo) == 0:
            return batches.plan()
    for number in np.unique(batches.batch[todo]).tolist():
        batches.settle(number, todo[batches.batch[todo] == number].tolist())
    return batches.plan()


class _Batches:
    """The negatives of some batches, one after the other: sample by sample, slot by slot.

    Attributes:
        batch: Number of the batch of each negative.
    """

    def __init__(
        self,
        draws: Plan,
        asked: Sequence[Asked],
        batch: int,
        per_draw: int,
        span: tuple[int, int],
    ) -> None:
        self._draws, self._asked = draws, asked
        self._slots = slots = per_draw - 1 if per_draw > 1 else len(draws.chunks) - 2
        first = draws.positions * per_draw
        of_slot = np.arange(1, 1 + slots) if per_draw > 1 else np.zeros(slots, np.int64)
        position = (first[:, None] + of_slot).reshape(-1)
        self.batch = position // batch
        self._inside = (position >= span[0]) & (position < span[1])
        self._chunks = np.stack(draws.chunks[2 : 2 + slots], axis=1).reshape(-1)
        self._hashes = np.stack(draws.hashes[2 : 2 + slots], axis=1).reshape(-1)
        told = draws.candidates
        self._told = None if told is None else np.stack(told, axis=1).reshape(-1)
        self._part = np.zeros(len(draws), np.int64)
        self._at = np.zeros(len(draws), np.int64)
        for number, part in enumerate(asked):
            self._part[part.rows] = number
            self._at[part.rows] = np.arange(len(part.rows))
        # Anchors are in the batches of all their pairs, positives in that of the first.
        spread = [(first + n, draws.hashes[0]) for n in range(per_draw)]
        spread.append((first, draws.hashes[1]))
        if draws.given is not None:
            whole = draws.given[:, -1]
            self._inside &= ~np.repeat(whole, slots)
            for n in range(1, per_draw):
                both = draws.hashes[1 + n], draws.hashes[per_draw + n]
                spread += [(first[whole] + n, texts[whole]) for texts in both]
        self._fixed_batch = np.concatenate([positions // batch for positions, _ in spread])
        self._fixed_text = np.concatenate([texts for _, texts in spread])
        # What batches have, as hashes of both: from the start, and what was drawn again.
        self._taken = self._seated = np.zeros(0, np.uint64)
        self._options: dict[int, Found] = {}

    def conflicts(self) -> Integers:
        """Return the negatives that repeat a text of their batch, in order."""
        (inside,) = np.nonzero(self._inside)
        fixed = pair_hashes(self._fixed_batch, self._fixed_text)
        words = pair_hashes(self.batch[inside], self._hashes[inside])
        every = np.concatenate([fixed, words])
        repeated = firsts(every)[len(fixed) :] < np.arange(len(fixed), len(every))
        if repeated.any():
            self._taken = np.sort(np.concatenate([fixed, words[~repeated]]))
        return np.asarray(inside[repeated], np.int64)

    def again(self, todo: Integers, attempt: int) -> Integers:
        """Draw some of them again; return those for which that did not do."""
        rows, slots = np.divmod(todo, self._slots)
        seated = np.zeros(len(todo), dtype=bool)
        found = Found(np.zeros(len(todo), np.int64), self._hashes[todo], np.zeros_like(todo))
        for number, part in enumerate(self._asked):
            for slot in range(self._slots):
                (mine,) = np.nonzero((self._part[rows] == number) & (slots == slot))
                if len(mine):
                    wanting = part.wanting.part(self._at[rows[mine]])
                    drawn, seated[mine] = part.stream.again(wanting, slot, attempt)
                    found.put(mine, drawn)
        words = pair_hashes(self.batch[todo], found.hashes)
        seated &= ~(_among(self._taken, words) | _among(self._seated, words))
        (at,) = np.nonzero(seated)
        at = at[firsts(words[at]) == np.arange(len(at))]
        self._put(todo[at], Found(found.chunks[at], found.hashes[at], found.told[at]))
        self._seated = np.sort(np.concatenate([self._seated, words[at]]))
        left = np.ones(len(todo), dtype=bool)
        left[at] = False
        return todo[left]

    def settle(self, number: int, left: list[int]) -> None:
        """Find texts for the negatives of a batch that have none yet.

        Raises:
            RecipeError: There are not enough.
        """
        (members,) = np.nonzero((self.batch == number) & self._inside)
        fixed = self._fixed_text[self._fixed_batch == number]
        without = set(left)
        holder = {int(self._hashes[m]): m for m in members.tolist() if m not in without}
        for negative in left:
            path, seen = self._path(negative, holder, fixed)
            if not path:
                raise self._refused(number, len(members), len(np.unique(fixed)), negative, seen)
            for one, place in path:
                options = self._options[one // self._slots]
                at = np.array([place])
                self._put(np.array([one]), Found(*(getattr(options, f)[at] for f in _FIELDS)))
                holder[int(options.hashes[place])] = one

    def _path(
        self, negative: int, holder: dict[int, int], fixed: Words
    ) -> tuple[list[tuple[int, int]], int]:
        """Return who takes which option so that a negative gets one, and how many texts were seen.

        Each of them leaves its text to the one before.
        """
        reached: dict[int, tuple[int, int]] = {}  # who lost its text to whom, and by which option
        seen: set[int] = set()
        waiting = [negative]
        for one in waiting:
            options = self._options_of(one // self._slots, fixed)
            for place, text in enumerate(options.hashes.tolist()):
                if text in seen:
                    continue
                seen.add(text)
                if text in holder:
                    reached[holder[text]] = (one, place)
                    waiting.append(holder[text])
                    continue
                path = [(one, place)]
                while one != negative:
                    one, place = reached[one]
                    path.append((one, place))
                return path, len(seen)
        return [], len(seen)

    def _options_of(self, row: int, fixed: Words) -> Found:
        if row not in self._options:
            part = self._asked[self._part[row]]
            found = part.stream.options(part.wanting.part(self._at[row : row + 1]))
            free = ~np.isin(found.hashes, fixed)
            self._options[row] = Found(*(getattr(found, name)[free] for name in _FIELDS))
        return self._options[row]

    def _put(self, negatives: Integers, found: Found) -> None:
        self._chunks[negatives] = found.chunks
        self._hashes[negatives] = found.hashes
        if self._told is not None:
            self._told[negatives] = found.told

    def plan(self) -> Plan:
        """Return the draws with the negatives as they are now."""

        def columns(flat: np.ndarray) -> list[np.ndarray]:
            return list(flat.reshape(-1, self._slots).T)

        draws = self._draws
        return replace(
            draws,
            chunks=[*draws.chunks[:2], *columns(self._chunks), *draws.chunks[2 + self._slots :]],
            hashes=[*draws.hashes[:2], *columns(self._hashes), *draws.hashes[2 + self._slots :]],
            candidates=None if self._told is None else columns(self._told),
        )

    def _refused(
        self, number: int, negatives: int, others: int, negative: int, seen: int
    ) -> RecipeError:
        stream = self._asked[self._part[negative // self._slots]].stream
        return RecipeError(
            f"no_duplicates='negatives' cannot be kept: batch {number} wants {negatives} different "
            f"negatives that are none of the {others} texts of its anchors and positives, and "
            f"{seen + 1} of them (recipe {stream.recipe.name!r}, source {stream.source!r}) have "
            f"only {seen} texts to choose from; lower batch_size or negatives"
        )


_FIELDS = ("chunks", "hashes", "told")


def _among(words: Words, wanted: Words) -> Flags:
    """Return which words are among sorted ones."""
    if len(words) == 0:
        return np.zeros(len(wanted), dtype=bool)
    near = np.minimum(np.searchsorted(words, wanted), len(words) - 1)
    found: Flags = words[near] == wanted
    return found
