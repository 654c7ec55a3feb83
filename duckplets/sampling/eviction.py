"""A search for places in crowded blocks, where putting one sample in sends another away.

A sample without a place goes to the batch where that costs least: where it sends away few
samples, and such as were rarely sent away before. They seek places in turn. What keeps coming
back is thus left alone more and more, until all fit or the search gives up. From time to time it
begins anew with nobody in place. All choices are a fixed function of the block.
"""

from __future__ import annotations

_STEPS = 4000  # and more for large blocks; small ones are mostly solved in less than a hundred
_WORD = (1 << 64) - 1


def find_room(order: list[int], batch: list[int], texts: list[list[int]], left: list[int]) -> bool:
    """Find places for samples that have none, so that no batch holds a text twice.

    Args:
        order: The sample at every place, or -1; rewritten.
        batch: Of every place, in ascending order.
        texts: Of every sample, each text once.
        left: Samples that are at no place.

    Returns:
        Whether all samples have a place.
    """
    return _Search(order, batch, texts, left).run()


class _Search:
    def __init__(
        self, order: list[int], batch: list[int], texts: list[list[int]], left: list[int]
    ) -> None:
        self._order = order
        self._batch = batch
        self._texts = texts
        self._left = list(left)
        self._sent = [0] * len(order)  # how often each sample was sent away
        self._place = [-1] * len(order)
        self._state = len(order)
        batches = range(batch[-1] + 1)
        self._places: list[list[int]] = [[] for _ in batches]
        self._holes: list[list[int]] = [[] for _ in batches]
        self._holder: list[dict[int, int]] = [{} for _ in batches]  # of each text
        for place, sample in enumerate(order):
            self._places[batch[place]].append(place)
            self._holes[batch[place]].append(place)
            if sample >= 0:
                self._put(sample, batch[place])

    def run(self) -> bool:
        samples, batches = len(self._order), len(self._holes)
        patience = 500 + 2 * samples
        steps = _STEPS + 32_000 // batches + samples // 4 + 2 * len(self._left)
        for step in range(steps):
            if not self._left:
                return True
            if step % patience == patience - 1:
                self._begin_anew()
            self._seat(self._left.pop(self._draw(len(self._left))))
        return not self._left

    def _begin_anew(self) -> None:
        self._sent = [0] * len(self._order)
        for sample in self._order:
            if sample >= 0:
                self._send_away(sample)

    def _seat(self, sample: int) -> None:
        batches = len(self._holes)
        start = self._draw(batches)
        least, chosen, sent_away = -1, 0, [0]
        for batch in (*range(start, batches), *range(start)):
            others = self._in_the_way(sample, batch)
            cost = sum(1 + self._sent[other] for other in others)
            cost *= 1000 + self._draw(1000)  # no two batches cost the same forever
            if least < 0 or cost < least:
                least, chosen, sent_away = cost, batch, others
            if not others:
                break
        for other in sent_away:
            self._send_away(other)
            self._sent[other] += 1
        self._put(sample, chosen)

    def _in_the_way(self, sample: int, batch: int) -> list[int]:
        """Return who has to leave a batch so that a sample can come."""
        holder = self._holder[batch]
        others = list({holder[text]: None for text in self._texts[sample] if text in holder})
        if others or self._holes[batch]:
            return others
        # Anybody: the one least sent away of a few, so that a step costs the same in large blocks.
        places = self._places[batch]
        few = 1 + 64 // len(self._places)
        if len(places) > few:
            places = [places[self._draw(len(places))] for _ in range(few)]
        return [min((self._order[place] for place in places), key=self._sent.__getitem__)]

    def _put(self, sample: int, batch: int) -> None:
        place = self._holes[batch].pop()
        self._order[place] = sample
        self._place[sample] = place
        self._holder[batch].update(dict.fromkeys(self._texts[sample], sample))

    def _send_away(self, sample: int) -> None:
        place = self._place[sample]
        batch = self._batch[place]
        self._order[place] = -1
        self._holes[batch].append(place)
        for text in self._texts[sample]:
            del self._holder[batch][text]
        self._left.append(sample)

    def _draw(self, bound: int) -> int:
        """Return the next of a fixed row of numbers below a bound (Knuth's MMIX generator)."""
        self._state = (self._state * 6364136223846793005 + 1442695040888963407) & _WORD
        return (self._state >> 32) * bound >> 32
