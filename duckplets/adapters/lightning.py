"""Log a run in a Lightning trainer, and store its position in the trainer's checkpoints."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from duckplets.adapters.run_log import SafeLogger, log_run
from duckplets.errors import ExtensionError, SamplerError

if TYPE_CHECKING:
    from duckplets.adapters.torch import SamplerDataset

_PACKAGES = "lightning.pytorch", "pytorch_lightning"  # two names of one package


def callback(dataset: SamplerDataset, every: int) -> Any:
    """Return a ``Callback``; see ``SamplerDataset.lightning_callback``."""

    class FollowsRun(_callbacks()):  # type: ignore[misc]
        """Log a run and store its position; see ``SamplerDataset.lightning_callback``."""

        _used: int | None = None  # steps of the run
        _log: Callable[[int], None] | None = None

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            """Log the id of the run and its forecast."""
            if not trainer.is_global_zero:
                return
            loggers = [SafeLogger(logger.log_metrics) for logger in trainer.loggers]
            for logger in trainer.loggers:
                SafeLogger(logger.log_hyperparams)({"data_run": dataset.run_id})

            def log(values: dict[str, float], _step: int) -> None:
                for safe in loggers:
                    safe(values, trainer.global_step)  # the step of losses, resumed with them

            self._log = log_run(dataset, log, every=every)

        def on_train_batch_end(
            self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
        ) -> None:
            """Note the used step."""
            try:
                self._used = int(batch["step"]) + 1
            except (TypeError, KeyError, IndexError):
                raise SamplerError(
                    "this batch has no 'step', which a checkpoint needs: let collate_fn keep it, "
                    "as in {**made, 'step': batch['step']}"
                ) from None
            if self._log is not None:
                self._log(self._used)

        def state_dict(self) -> dict[str, Any]:
            """Return the position in the run, for a checkpoint."""
            used = dataset.step if self._used is None else self._used
            return {"sampler": dataset.state_dict(used)}

        def load_state_dict(self, state_dict: dict[str, Any]) -> None:
            """Continue at the position of a checkpoint."""
            dataset.load_state_dict(state_dict["sampler"])
            # Check now: after a later error Lightning's own cleanup fails and hides the cause.
            run = dataset._known_run()
            if run.start["position"] == run.end:  # Lightning starts its next epoch
                dataset._passes.take(None)
            self._used = None

    return FollowsRun()


def _callbacks() -> Any:
    """Return the callback class of Lightning, of the imported package first."""
    for name in sorted(_PACKAGES, key=lambda name: name not in sys.modules):
        try:
            return import_module(name).Callback
        except ImportError:
            continue
    raise ExtensionError("lightning_callback needs Lightning: pip install lightning")
