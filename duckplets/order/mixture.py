"""How much of each source is drawn, at which temperature, and how that changes by step."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal

from duckplets.base.documents import read_document
from duckplets.base.sanitize import listed
from duckplets.base.settings import Bounds, check, checked, from_plain, to_plain
from duckplets.errors import MixtureError, nearest
from duckplets.order.kinds import Epochs, Factor, Shares, Step, Weight, Word

__all__ = ["Anneal", "Mixture", "Phase", "mixture_of"]

NULL = "null"  # the value of records without one
AND = " / "  # between the values of two columns


@dataclass(frozen=True, slots=True)
class Event:
    """Weights set during a run, which override the declared ones."""

    weights: Mapping[str, float]
    temperature: float | None = None  # from then on; None leaves it


@dataclass(frozen=True, slots=True)
class Change:
    """The weights from ``step`` on; with a target they move towards it up to ``until``."""

    step: int
    weights: Mapping[str, Weight]
    until: int = 0
    target: Mapping[str, Weight] | None = None


@dataclass(frozen=True, slots=True)
class Phase:
    """Other weights from a step on.

    Attributes:
        start_step: The first step, from 0, whose samples are drawn by it.
        weights: Override the *declared* weights of the mixture for the names given. The phase
            before does not count.
        lr_scale: Factor for the learning rate while the phase is in force; more than 0.
    """

    start_step: Step
    weights: Shares
    lr_scale: Factor = 1.0

    def __post_init__(self) -> None:
        step = checked("start_step", self.start_step, Step, MixtureError, "phase")
        check(self, MixtureError, f"phase at step {step}")


@dataclass(frozen=True, slots=True)
class Anneal:
    """One late change of the mix, at once or step by step.

    Attributes:
        start_step: The step, from 0, at which the change begins.
        weights: The target: overrides the declared weights for the names given.
        end_step: None for a change at once. Otherwise the shares go in a line from the declared
            weights, at ``start_step``, to the target, at ``end_step``.
        lr_scale: Factor for the learning rate, in full from ``start_step`` on; more than 0.
    """

    start_step: Step
    weights: Shares
    end_step: Step | None = None
    lr_scale: Factor = 1.0

    def __post_init__(self) -> None:
        check(self, MixtureError, "anneal")
        if self.end_step is not None and self.end_step <= self.start_step:
            raise MixtureError(
                f"anneal: end_step={self.end_step} must be more than start_step={self.start_step}; "
                f"leave it out to change the weights at once"
            )


@dataclass(frozen=True, slots=True)
class Mixture:
    """How much of each source is drawn, and how that changes during a run.

    Attributes:
        weights: Relative weight of each source; 0 means never. ``"proportional"`` gives each source
            as many samples an epoch as it has anchors, ``"equal"`` each the same share; both
            declare shares that sum to 1.
        temperature: Shares go as ``weight ** (1 / temperature)``: more than 1 flattens, less
            sharpens, 1 leaves the weights as they are. A weight of 0 stays 0.
        phases: ``Phase``s by rising ``start_step``.
        anneal: One ``Anneal`` instead of phases.
        omitted: Weight of each source that a mapping of weights does not name; None is 0.
        unit: The unit of shares: ``"samples"`` or ``"tokens"``. At every step the tokens of each
            source, since the weights were set, are within 1.7 longest samples of its share (a half
            for two sources). Tokens are counted in the drawn windows: the text of texts and
            messages, otherwise anchor and positive.
        column: A value of records, such as ``"meta['language']"``, or two: weights then are of its
            values, not of sources, and of two as in ``"en / mit"``. Sources of a value share it in
            proportion to their anchors; negatives stay the source's. Records without a value are of
            ``"null"``, which weighs 0 unless it is named.
        order_by: A number or a date of records. In the first ``order_epochs`` epochs each recipe of
            a source divides its anchors by this value into ``stairs`` parts of equal size, the
            least values first, shuffled within a part. Records without a value come last. Later
            epochs have the usual order.
        stairs: Number of parts.
        order_epochs: The number of epochs in that order.
        max_epochs: The number of epochs, from 1 on, after which a source is used up. Its share goes
            to the others in proportion from the next position on (with ``batch_by`` from the next
            batch).
            Epochs before a later version joins count as far as they went.
        stop: The end of a run without ``steps`` and ``epochs``: when the ``first`` source, or
            ``all``, are used up. A source is used up after its ``max_epochs``, or one epoch.
        lengths: Samples, or tokens, of an epoch of each source: the basis of ``"proportional"`` and
            ``"equal"``. Filled in when a run is opened.
        values: The values of ``column``; filled in when a run is opened.
    """

    weights: Word | Shares = "proportional"
    temperature: Factor = 1.0
    phases: Sequence[Phase] = ()
    anneal: Anneal | None = None
    omitted: Annotated[float, Bounds(0)] | None = None
    unit: Literal["samples", "tokens"] = "samples"
    max_epochs: Epochs = field(default_factory=dict, hash=False)
    stop: Literal["first", "all"] | None = None
    column: str | Sequence[str] | None = None
    order_by: str | None = None
    stairs: Annotated[int, Bounds(1, 1 << 16)] = 10
    order_epochs: Annotated[int, Bounds(1)] = 1
    lengths: Mapping[str, int] = field(default_factory=dict, hash=False, repr=False)
    values: Sequence[str] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        check(self, MixtureError, "mixture")
        if len(self.columns) > 2 or not all(map(str.strip, self.columns)):
            raise MixtureError(
                f"mixture: column={self.column!r}: give one or two values of records"
            )
        for before, after in pairwise(self.phases):
            if after.start_step <= before.start_step:
                raise MixtureError(
                    f"mixture: a phase at step {after.start_step} after one at step "
                    f"{before.start_step}; start_step must rise from phase to phase"
                )
        if self.phases and self.anneal is not None:
            raise MixtureError(
                "mixture: phases and anneal together; give one of them (an anneal at once is the "
                "same as one phase)"
            )

    @classmethod
    def from_toml(cls, path: str | PathLike[str]) -> Mixture:
        """Read a mixture from the ``[mixture]`` table of a TOML file; other tables are let be.

            [mixture]
            weights = { web = 0.7, code = 0.3 }   # or "proportional", "equal"
            temperature = 1.5
            unit = "tokens"                       # shares of tokens; by default of samples
            # max_epochs = { code = 3 }
            # anneal = { start_step = 50, weights = { web = 0.2 }, end_step = 100 }

            [[mixture.phases]]
            start_step = 10_000
            weights = { web = 0.3 }               # the others keep the weight above
            lr_scale = 0.5

        The keys are the attributes of this class. Sources that no key names weigh ``omitted``,
        which is 0.

        Raises:
            MixtureError: The file is missing, unreadable or wrong; the message names the file,
                table and key.
        """
        content = read_document(Path(path), "TOML", MixtureError)
        try:
            if "mixture" not in content:
                raise MixtureError(
                    "it has no [mixture] table; write [mixture] and weights = { name = 0.7, … }"
                )
            table = content["mixture"]
            for name in ("lengths", "values"):
                if isinstance(table, Mapping) and name in table:
                    raise MixtureError(f"mixture: {name} follow from the corpus; leave them out")
            return cls.from_dict(table)
        except MixtureError as error:
            raise MixtureError(f"{Path(path)}: {error}") from None

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> Mixture:
        """Return the mixture of a dict that ``to_dict`` made."""
        return from_plain(cls, d, MixtureError, "mixture")

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values from which ``from_dict`` makes an equal mixture."""
        plain: dict[str, Any] = to_plain(self)
        return plain

    def check(self, sources: Sequence[str]) -> None:
        """Check names and weights of every phase against the sources of a run."""
        self.changed(sources, self._given()[0])
        self.changed(sources, dict.fromkeys(self.max_epochs, 1.0), "max_epochs")
        for change in self._changes():
            what = f"phase at step {change.start_step}" if self.phases else "anneal"
            self.changed(sources, change.weights, what)

    @property
    def columns(self) -> tuple[str, ...]:
        """The values of records that shares are of, if they are not of sources."""
        given = () if self.column is None else self.column
        return (given,) if isinstance(given, str) else tuple(given)

    def is_null(self, name: str) -> bool:
        """Return whether a name is of records without a value in a column."""
        return NULL in (name.split(AND) if len(self.columns) > 1 else [name][: len(self.columns)])

    def needed(self, sources: Sequence[str]) -> set[str]:
        """Return the sources that are drawn from at some step."""
        return {*sources} if self.columns else self.drawn(sources)

    @property
    def named(self) -> set[str]:
        """Names of the sources that the weights, a phase or an anneal name."""
        return {name for weights in self._given() for name in weights}

    @property
    def weighed(self) -> set[str]:
        """Names of sources with a positive weight in the weights, a phase or an anneal."""
        return positive(self._given())

    def drawn(self, sources: Sequence[str]) -> set[str]:
        """Return the sources drawn at some step, or whose anchors determine other shares."""
        given = list[Mapping[str, Weight]]()
        if isinstance(self.weights, str):
            given.append(self.declared(sources))
        for change in self.changes(sources):
            given += [change.weights, change.target or {}]
        return positive(given)

    def without(self, names: Collection[str]) -> Mixture:
        """Return the mixture without some sources."""
        made = self._each(lambda w: {n: 0.0 if n in names else weight for n, weight in w.items()})
        if not isinstance(made.weights, str):
            made = replace(made, weights={**made.weights, **dict.fromkeys(names, 0.0)})
        lengths, most = (
            {name: n for name, n in named.items() if name not in names}
            for named in (self.lengths, self.max_epochs)
        )
        return replace(made, lengths=lengths, max_epochs=most)

    def of_known(self, sources: Collection[str]) -> Mixture:
        """Return the mixture of some sources, without changes that leave all of them at 0."""
        made = self._each(lambda w: {n: weight for n, weight in w.items() if n in sources})
        declared = made.declared(sorted(sources))
        left = [c for c in made._changes() if any({**declared, **c.weights}.values())]
        return replace(
            made,
            max_epochs={name: n for name, n in self.max_epochs.items() if name in sources},
            phases=[change for change in left if isinstance(change, Phase)],
            anneal=next((change for change in left if isinstance(change, Anneal)), None),
        )

    def declared(self, sources: Sequence[str]) -> dict[str, Weight]:
        """Return the weight of every source before any phase; for a word exact shares."""
        if not isinstance(self.weights, str):
            rest = {name: 0.0 if self.is_null(name) else self.omitted or 0.0 for name in sources}
            return {name: self.weights.get(name, other) for name, other in rest.items()}
        lengths = self.lengths or dict.fromkeys(sources, 1)
        lengths = {n: 0 if self.is_null(n) else length for n, length in lengths.items()}
        if self.weights == "equal":
            lengths = {name: min(length, 1) for name, length in lengths.items()}
        whole = max(1, sum(lengths.values()))
        return {name: Fraction(lengths.get(name, 0), whole) for name in sources}

    def changed(
        self, sources: Sequence[str], weights: Mapping[str, float], what: str = "mixture"
    ) -> dict[str, Weight]:
        """Return the declared weights of all sources, overridden for the names given."""
        given, known = checked("weights", weights, Shares, MixtureError, what), {*sources}
        for name in given:
            if name not in known:
                kind = "value" if self.columns else "source"
                raise MixtureError(
                    f"{what}: no {kind} {name!r}{nearest(name, sources)}; there are: "
                    f"{listed(sources)}"
                )
        merged = {**self.declared(sources), **given}
        if not any(merged.values()):
            raise MixtureError(
                f"{what}: every source has weight 0; give at least one more than that (what is not "
                f"named is left out, unless omitted= gives it a weight)"
            )
        return merged

    def phase(self, step: int) -> int:
        """Return the phase in force: 0 before the first, then 1, 2, …; an anneal is 1."""
        return sum(change.start_step <= step for change in self._changes())

    def lr_scale(self, step: int) -> float:
        """Return the factor for the learning rate at a step: 1 before the first phase."""
        phase = self.phase(step)
        return self._changes()[phase - 1].lr_scale if phase else 1.0

    def as_before(self, other: Mixture) -> Mixture:
        """Return another mixture for the same run: its streams stay, whatever their shares."""
        for name in ("columns", "order_by", "stairs", "order_epochs"):
            if getattr(other, name) != getattr(self, name):
                raise MixtureError(
                    f"mixture: a saved run keeps what its shares and its order are by, and "
                    f"{name} differs ({getattr(self, name)!r}); leave it as it is, or open another"
                )
        return replace(other, values=self.values)

    def changes(self, sources: Sequence[str]) -> Iterator[Change]:
        """Yield the changes of the weights of a run's sources, in order."""
        if self.anneal is None:
            declared = {0: self.declared(sources)}
            phases = {p.start_step: self.changed(sources, p.weights) for p in self.phases}
            for step, weights in (declared | phases).items():
                yield Change(step, weights)
            return
        target = self.changed(sources, self.anneal.weights)
        start, end = self.anneal.start_step, self.anneal.end_step
        if start > 0:
            yield Change(0, self.declared(sources))
        if end is not None:
            yield Change(start, self.declared(sources), end, target)
        yield Change(start if end is None else end, target)

    def _changes(self) -> tuple[Phase | Anneal, ...]:
        return tuple(self.phases) if self.anneal is None else (self.anneal,)

    def _given(self) -> list[Mapping[str, float]]:
        own = {} if isinstance(self.weights, str) else self.weights
        return [own, *(change.weights for change in self._changes())]

    def _each(self, of: Callable[[Mapping[str, float]], dict[str, float]]) -> Mixture:
        return replace(
            self,
            weights=self.weights if isinstance(self.weights, str) else of(self.weights),
            phases=[replace(phase, weights=of(phase.weights)) for phase in self.phases],
            anneal=self.anneal and replace(self.anneal, weights=of(self.anneal.weights)),
        )


def positive(several: Iterable[Mapping[str, Weight]]) -> set[str]:
    """Return the names with a positive weight in any of several mappings."""
    return {name for weights in several for name, weight in weights.items() if weight > 0}


def mixture_of(value: Mixture | Mapping[str, float] | str | PathLike[str] | None) -> Mixture:
    """Return a mixture from a mixture, a word, weights, or the path of a TOML file."""
    if isinstance(value, Mixture):
        return value
    if value is None or isinstance(value, Mapping):
        return Mixture() if value is None else Mixture(value)
    if isinstance(value, str) and not (Path(value).suffix or Path(value).exists()):
        return Mixture(value)  # type: ignore[arg-type]
    if isinstance(value, str | PathLike):
        return Mixture.from_toml(value)
    raise MixtureError(
        f"mixture={value!r}: give a weight for each name, as in {{'web': 0.7}}, or a Mixture(…), "
        f"'proportional', 'equal', or the path of a TOML file"
    )


def differences(saved: Mixture, now: Mixture) -> str:
    """Return the differences of two mixtures in words, phase by phase."""
    one, other = _described(saved), _described(now)
    every = sorted({*one, *other}, key=lambda what: (what.startswith("from"), len(what), what))
    return "; ".join(
        f"{what} (saved: {one.get(what, 'none')}, now: {other.get(what, 'none')})"
        for what in every
        if one.get(what) != other.get(what)
    )


def _described(mixture: Mixture) -> dict[str, str]:
    parts = {
        "weights": mixture.weights if isinstance(mixture.weights, str) else f"{mixture.weights}",
        "omitted": f"{mixture.omitted or 0:g}",
        "temperature": f"{mixture.temperature:g}",
        "unit": mixture.unit,
        "max_epochs": f"{dict(mixture.max_epochs)}",
        "stop": f"{mixture.stop}",
        "column": f"{mixture.column}",
        "order_by": f"{mixture.order_by}, {mixture.stairs} stairs, {mixture.order_epochs} epochs",
    }
    for change in mixture._changes():
        end = getattr(change, "end_step", None)
        when = f"from step {change.start_step}" + (f" step by step to step {end}" if end else "")
        parts[when] = f"{dict(change.weights)}, lr_scale {change.lr_scale:g}"
    return parts
