"""Log the forecast of a run at the start, and its metrics every few steps."""

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
    """Log the forecast of a run, and return a function that logs metrics after each step.

    The forecast has ``forecast/NAME/share``, ``forecast/NAME/samples`` and
    ``forecast/NAME/tokens`` of every source. Every few steps the function logs ``metrics()`` of
    the run, such as ``data/NAME/samples``::

        with mlflow.start_run(), corpus.sampler(steps=1000) as sampler:
            mlflow.log_param("data_run", sampler.run_id)
            used = dp.log_run(sampler, lambda values, step: mlflow.log_metrics(values, step=step))
            for batch in sampler:
                ...
                used(batch.step + 1)

    If the logger raises, training continues; a warning reports the first failure. Call it on one
    rank only: the numbers are of all ranks.

    Args:
        run: A ``Sampler`` or a ``duckplets.torch.SamplerDataset``.
        log: A function of a dict of numbers by name and the step, such as ``accelerator.log``.
        every: Steps between two logs of metrics.

    Returns:
        A function of the number of used steps: ``batch.step + 1``, ``batch["step"] + 1``.

    Raises:
        SamplerError: ``every`` is no number of steps, or ``log`` is no function.
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
    """Call a logger; if it raises, warn once and continue."""

    def __init__(self, log: Callable[..., Any]) -> None:
        self._log, self._has_failed = log, False

    def __call__(self, values: Mapping[str, Any], *step: int) -> None:
        """Call the logger."""
        try:
            self._log(dict(values), *step)
        except Exception as error:  # the user's code; its message may contain a password
            if not self._has_failed:
                self._has_failed = True
                kind = type(error).__name__
                log.warning("the logger raised %s: training continues without these values", kind)


def forecast_values(forecast: Forecast) -> dict[str, float]:
    """Return share, samples and tokens of every source in a forecast, by name."""
    rows = forecast.table.select(["source", "samples", "tokens"])
    summed = rows.group_by("source").aggregate([("samples", "sum"), ("tokens", "sum")])
    total = sum(rows["samples"].to_pylist())
    found: dict[str, float] = {}
    columns = (column.to_pylist() for column in summed.columns)
    for name, samples, tokens in zip(*columns, strict=True):
        found[f"forecast/{name}/share"] = samples / total if total else 0.0
        found[f"forecast/{name}/samples"] = samples
        found[f"forecast/{name}/tokens"] = tokens
    return found
