"""Give a logger what a run has used: its forecast at the start, its metrics every few steps."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from duckplets.base.checks import integer
from duckplets.errors import SamplerError

if TYPE_CHECKING:
    from duckplets.adapters.torch import SamplerDataset
    from duckplets.runs.forecast import Forecast
    from duckplets.runs.sampler import Sampler

log = logging.getLogger("duckplets")

Log = Callable[[dict[str, float], int], Any]


def log_run(run: Sampler | SamplerDataset, log: Log, *, every: int = 100) -> Callable[[int], None]:
    """Return a function to call after every step, which gives a logger what was used.

    At once the forecast is logged: ``forecast/NAME/share``, ``forecast/NAME/samples`` and
    ``forecast/NAME/tokens`` of every source. Every few steps ``metrics()`` of the run follow, as
    ``data/NAME/samples``::

        with mlflow.start_run(), corpus.sampler(steps=1000) as sampler:
            mlflow.log_param("data_run", sampler.run_id)
            used = dp.log_run(sampler, lambda values, step: mlflow.log_metrics(values, step=step))
            for batch in sampler:
                ...
                used(batch.step + 1)

    Where the logger raises, training goes on, and the first time a warning says so. Of several
    ranks let one log: figures are of all.

    Args:
        run: A ``Sampler`` or a ``duckplets.torch.SamplerDataset``.
        log: Called with a dict of numbers by name, and the step; ``accelerator.log`` is one.
        every: Steps from one logging of metrics to the next.

    Returns:
        A function of the number of steps used: ``batch.step + 1``, ``batch["step"] + 1``.

    Raises:
        SamplerError: ``every`` is no number of steps, or ``log`` no function.
    """
    integer("every", every, 1)
    if not callable(log):
        raise SamplerError(
            f"log={type(log).__name__}: give a function of a dict of numbers and a step, such as "
            f"lambda values, step: mlflow.log_metrics(values, step=step)"
        )
    safe = SafeLogger(log)
    safe(forecast_values(run.forecast()), run.step)

    def used(steps: int) -> None:
        if steps % every == 0:
            safe(run.metrics(steps), steps)

    return used


class SafeLogger:
    """Call a logger; where it raises, warn the first time and continue."""

    def __init__(self, log: Callable[..., Any]) -> None:
        self._log, self._has_failed = log, False

    def __call__(self, values: Mapping[str, Any], *step: int) -> None:
        """Call the logger."""
        try:
            self._log(dict(values), *step)
        except Exception as error:  # of whoever wrote it; its message may have a password in it
            if not self._has_failed:
                self._has_failed = True
                what = f"the logger raised {type(error).__name__}"
                log.warning("%s: training goes on, what it refused is not logged", what)


def forecast_values(forecast: Forecast) -> dict[str, float]:
    """Return share, samples and tokens of every source in a forecast, by name."""
    rows = forecast.table.select(["source", "samples", "tokens"])
    summed = rows.group_by("source").aggregate([("samples", "sum"), ("tokens", "sum")])
    total = sum(rows["samples"].to_pylist())
    found: dict[str, float] = {}
    for name, samples, tokens in zip(*(of.to_pylist() for of in summed.columns), strict=True):
        found[f"forecast/{name}/share"] = samples / total if total else 0.0
        found[f"forecast/{name}/samples"] = samples
        found[f"forecast/{name}/tokens"] = tokens
    return found
