"""Turn a run into Hugging Face datasets, for the trainer of sentence-transformers."""

# The trainer tokenises every column in order, so a dataset has only text columns and a label.

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckplets.adapters.run_log import SafeLogger, log_run
from duckplets.base.checks import integer
from duckplets.base.columns import shaped_type
from duckplets.base.sanitize import listed
from duckplets.base.settings import checked
from duckplets.errors import ExtensionError, SamplerError
from duckplets.runs import passes
from duckplets.samples.columns import default_columns, slot_names
from duckplets.tokens.batches import ARRAYS

_NAME = "dataset_name"  # the column of sentence-transformers

Label: TypeAlias = Literal["margin", "scores"]

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duckplets.runs.sampler import Sampler

_STARTS: WeakKeyDictionary[Sampler, int] = WeakKeyDictionary()  # positions at to_hf


def to_hf(
    sampler: Sampler,
    start_step: int | None = None,
    *,
    dataset_name: bool = False,
    label: Label | None = None,
) -> Any:
    """Return the rows from the sampler's position as a ``datasets.IterableDataset``.

    The features are the text columns in order. Pairs also have the label: an integer, or a float
    if a source has grades. A ``SentenceTransformerTrainer`` takes the dataset with ``max_steps``.
    With token shards, the features are the four arrays of a row, as lists of int32, for a
    ``Trainer``. Set ``per_device_train_batch_size`` to the sampler's batch size to get the
    sampler's batches.

    The dataset moves the sampler. A second iteration continues with the next epoch, as in
    ``duckplets.torch.SamplerDataset``. Trainers call ``set_epoch``, which works in the same way. A
    trainer that counts epochs from 0 when it resumes starts at the sampler's position. An
    ``eval_dataset`` needs ``epochs=1``; every evaluation then has the same rows.

    The trainer reads ahead, so the position of training is its ``global_step``, not the sampler's.
    Save the run with ``hf_callback``. To resume without reading used rows again, start with the
    saved step and set the trainer's ``ignore_data_skip=True``. Do not use DataLoader workers: a
    thread already prepares the rows.

    Args:
        sampler: A sampler of all ranks (``world_size=1``): a trainer distributes rows itself.
        start_step: The step to start with. Default: the sampler's.
        dataset_name: Add the source of each row as ``dataset_name``. sentence-transformers chooses
            prompts by it (``prompts={source: …}``). It reads the name of a batch's first row, so
            a batch must have one source (``batch_by=``). The trainer's arguments need
            ``accelerator_config={"dispatch_batches": False}``, because accelerate cannot
            distribute text. For one loss a source, set ``trainer.loss = {source: loss}`` after you
            make the trainer: its constructor requires a ``DatasetDict`` for this.
        label: Add ``label`` from the scores of mined triplets, for distillation. ``"margin"``: the
            positive's score minus the negative's; a list if there are several. ``"scores"``: a
            list, with the positive's first. ``columns=`` of the sampler must have
            ``positive_score`` and the score of each negative. For lists ``"scores"`` replaces
            ``labels``.

    Raises:
        ExtensionError: ``datasets`` is not installed.
        SamplerError: The step does not exist, or no batch remains. The sampler is for one rank of
            several. Its ``columns=`` exclude all texts or the scores of a label, or include a
            column that is no text. A batch has several sources. While iterating: a negative has
            no score.
    """
    datasets = imported("datasets")
    columns = _columns(sampler, label)
    _refuse_ranks(sampler)
    if dataset_name:
        _refuse_mixed(sampler)
        columns[_NAME] = pa.string()
    if start_step is not None:
        sampler.move(integer("start_step", start_step, 0) * sampler.settings.global_batch)
    if sampler.position == sampler.reader.end:
        raise _at_end(sampler)
    features = datasets.Features.from_arrow_schema(pa.schema(list(columns.items())))
    rows = _Rows(sampler, columns, label)
    made = datasets.IterableDataset.from_generator(rows, features=features)
    made.set_epoch, made._is_endless = rows.set_epoch, sampler.reader.end is None
    _STARTS[sampler] = sampler.position
    if dataset_name:  # the trainer refuses the column in data sets that others made
        made._sentence_transformers_preprocessed = True
    return made


def _refuse_mixed(sampler: Sampler) -> None:
    settings = sampler.settings
    drawn = {stream.source for stream in sampler.planner.streams}
    if "source" not in settings.columns:
        raise SamplerError("dataset_name=True needs the column source: add it to columns=")
    if not settings.batch_by and len(drawn) > 1:
        raise SamplerError(
            f"dataset_name=True: sentence-transformers reads one name a batch, and batches of this "
            f"run mix {listed(map(repr, sorted(drawn)))}; open the sampler with batch_by='source'"
        )
    schedule = sampler.planner.schedule
    if any(schedule.at(step).mixed(step)[0] for step in schedule.changes):
        raise SamplerError(
            "dataset_name=True: proportional shares with batch_by='source' give some mixed "
            "batches; use weights instead, as in mixture={'web': 2, 'faq': 1}"
        )


def _at_end(sampler: Sampler) -> SamplerError:
    return SamplerError(
        f"this run is at its end, position {sampler.position}; open it with more steps= or epochs="
    )


def to_hf_dataset(sampler: Sampler, steps: int, *, label: Label | None = None) -> Any:
    """Return the rows of the next batches as a ``datasets.Dataset``; the sampler does not move.

    A bounded run that ends earlier gives its remaining batches. Lists have the columns ``anchor``,
    ``documents`` and ``labels``. A ``CrossEncoderTrainer`` takes them for listwise losses such as
    ``LambdaLoss``, with ``hf_batch_sampler``. It cannot use ``to_hf``.

    Args:
        sampler: The run.
        steps: Number of batches.
        label: As for ``to_hf``.

    Raises:
        ExtensionError: ``datasets`` is not installed.
        SamplerError: The run has no batch left. Its ``columns=`` exclude all texts or the scores
            of a label, or include a column that is no text. A negative has no score.
    """
    datasets = imported("datasets")
    columns = _columns(sampler, label)
    batches = sampler.peek(integer("steps", steps, 1))
    tables = [_table(batch, columns, label) for batch in batches]
    if ARRAYS[0] in columns:  # fixed-size lists have a type of their own
        tables = [table.cast(pa.schema(list(columns.items()))) for table in tables]
    if not tables:
        raise _at_end(sampler)
    return datasets.Dataset(pa.concat_tables(tables).combine_chunks())


def hf_batch_sampler(sampler: Sampler) -> Callable[..., Any]:
    """Return a value for ``batch_sampler=`` that keeps the batches of ``to_hf_dataset``.

    Every epoch has the batches of the dataset in the same order. The trainer's
    ``per_device_train_batch_size`` must be the sampler's batch size.

    Args:
        sampler: The sampler of the dataset, for all ranks: a trainer distributes batches itself.

    Raises:
        ExtensionError: ``sentence_transformers`` is not installed.
        SamplerError: The sampler is for one rank of several.
    """
    _refuse_ranks(sampler)
    imported("sentence_transformers")
    from duckplets.adapters.kept_batches import KeptBatches

    return partial(KeptBatches, of_run=sampler.settings.batch_size)


def hf_callback(sampler: Sampler) -> Any:
    """Return a ``TrainerCallback`` that saves the run with every checkpoint of a trainer.

    The file ``CHECKPOINT/sampler.state.duckdb`` has the next batch of the trainer; the sampler is
    ahead of it. To continue after a kill::

        checkpoint = transformers.trainer_utils.get_last_checkpoint(output_dir)
        sampler = dp.resume(corpus, state=f"{checkpoint}/sampler.state.duckdb")
        trainer = Trainer(…, train_dataset=sampler.to_hf(), callbacks=[sampler.hf_callback()])
        trainer.train(resume_from_checkpoint=checkpoint)  # with ignore_data_skip=True

    Args:
        sampler: The sampler of the ``to_hf`` dataset that the trainer reads, for all ranks.

    Raises:
        ExtensionError: ``transformers`` is not installed.
        SamplerError: The sampler is for one rank of several. Before the first step: the trainer's
            batches are not the sampler's, or it needs more than a bounded run has. It would skip
            batches that a resumed sampler has skipped, or accelerate would distribute texts. At
            the first evaluation: ``eval_dataset`` is an endless run.
    """
    _refuse_ranks(sampler)
    callbacks = imported("transformers").TrainerCallback

    class SavesSampler(callbacks):  # type: ignore[misc, valid-type]
        """Save a run in every checkpoint; see ``hf_callback``."""

        def on_train_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            """Note the start of training, and refuse settings that change the sampler's batches."""
            loader = type(others.get("train_dataloader")).__name__
            is_text = ARRAYS[0] not in sampler.settings.columns  # token batches have one width
            if is_text and args.world_size > 1 and loader == "DataLoaderDispatcher":
                raise SamplerError(
                    "accelerate cannot distribute texts of different lengths: set "
                    'accelerator_config={"dispatch_batches": False} in the trainer\'s arguments; '
                    "every process then reads the run and takes its rows"
                )
            self._used = _used_steps(sampler, args, state)
            is_bounded = state.max_steps > 0 and sampler.reader.end is not None
            if is_bounded and (step := self._used(state.max_steps)) > (length := len(sampler)):
                raise SamplerError(
                    f"the trainer would use {step} batches, and this run has {length}: remove "
                    f"steps= and epochs= of the sampler, and let max_steps end the training"
                )

        def on_prediction_step(
            self, args: Any, state: Any, control: Any, eval_dataloader: Any = None, **_: Any
        ) -> None:
            """Refuse to evaluate an endless run."""
            data = eval_dataloader
            while hasattr(data, "dataset"):  # a loader, or accelerate's part for a rank
                data = data.dataset
            if getattr(data, "_is_endless", False):
                raise SamplerError(
                    "eval_dataset= is an endless run, so the evaluation cannot end: set epochs=1 "
                    "(or steps=), as in corpus.sampler(split='validation', epochs=1).to_hf()"
                )

        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            """Save the step after the last used one."""
            if state.is_world_process_zero:
                checkpoint = Path(args.output_dir) / f"checkpoint-{state.global_step}"
                path = checkpoint / "sampler.state.duckdb"
                path.unlink(missing_ok=True)  # of an earlier run
                sampler.save(path=path, step=self._used(state.global_step))

    return SavesSampler()


def hf_logger(sampler: Sampler, trainer: Any, *, every: int = 100) -> Any:
    """Return a ``TrainerCallback`` that logs the used part of a run to the trainer's reporters.

    It logs the forecast at the start and the metrics every few steps, as in ``duckplets.log_run``.
    It calls ``trainer.log``, because reporting callbacks (TensorBoard, MLflow and others) run
    before added ones. Rows that the trainer only read ahead do not count. The run's id goes as
    ``data_run`` to the parameters of MLflow, the config of W&B and Trackio, and a text of
    TensorBoard::

        trainer.add_callback(sampler.hf_logger(trainer, every=50))

    If a reporter raises on these values, training continues with one warning.

    Args:
        sampler: The sampler of the ``to_hf`` dataset that the trainer reads, for all ranks.
        trainer: The trainer, of transformers or sentence-transformers.
        every: Steps of the trainer between two logs of metrics.

    Raises:
        ExtensionError: ``transformers`` is not installed.
        SamplerError: As in ``hf_callback``, or ``every`` is no number of steps.
    """
    _refuse_ranks(sampler)
    integer("every", every, 1)
    callbacks = imported("transformers").TrainerCallback

    def log(values: dict[str, float], _step: int) -> None:
        is_due = trainer.control.should_log
        try:
            trainer.log(values)
        finally:  # otherwise the trainer does not log this step's loss
            trainer.control.should_log = is_due

    class LogsRun(callbacks):  # type: ignore[misc, valid-type]
        """Log a run through a trainer; see ``hf_logger``."""

        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            """Log the id of the run and its forecast."""
            self._used = _used_steps(sampler, args, state)
            if state.is_world_process_zero:
                for callback in trainer.callback_handler.callbacks:
                    SafeLogger(lambda values, to=callback: _configure(to, values))(
                        {"data_run": sampler.run_id}
                    )
                self._log = log_run(sampler, log, every=1)

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            """Log the used samples up to this step."""
            if state.is_world_process_zero and state.global_step % every == 0:
                self._log(self._used(state.global_step))

    return LogsRun()


def _configure(callback: Any, values: dict[str, str]) -> None:
    """Add values to the config that a reporting callback of transformers has already written."""
    if tracked := getattr(callback, "_ml_flow", None):
        tracked.log_params(values)
    elif writer := getattr(callback, "tb_writer", None):
        for name, value in values.items():
            writer.add_text(name, value)
    elif tracked := getattr(callback, "_wandb", None) or getattr(callback, "_trackio", None):
        tracked.config.update(values, allow_val_change=True)


def _used_steps(sampler: Sampler, args: Any, state: Any) -> Callable[[int], int]:
    """Return a function from a trainer's step to the run's, at the start of training."""
    rows, expected = args.train_batch_size * args.world_size, sampler.settings.batch_size
    if rows != expected:
        raise SamplerError(
            f"the trainer takes {rows} rows at once ({args.train_batch_size} on each of "
            f"{args.world_size} processes), and a batch of this run has {expected}: open the "
            f"sampler with batch_size={rows}, so that its steps are the trainer's"
        )
    batches = int(args.gradient_accumulation_steps)
    start = _STARTS.get(sampler, sampler.position) // sampler.settings.global_batch
    used = state.global_step * batches
    # Without ignore_data_skip the trainer reads the used batches again.
    first = start - used if args.ignore_data_skip else start
    if first < 0:
        raise SamplerError(
            f"the trainer continues after {used} batches, and the sampler at step {start}: resume "
            f"it from the state file in the checkpoint that the trainer resumes from"
        )
    if used and start and not args.ignore_data_skip and sampler in _STARTS:
        raise SamplerError(
            f"the trainer skips the {used} used batches, and the sampler is already at step "
            f"{start}: set ignore_data_skip=True in the trainer's arguments"
        )
    return lambda step: int(first + step * batches)


class _Rows:
    """The rows of a sampler, one pass a call; the first starts at its position."""

    def __init__(
        self, sampler: Sampler, columns: dict[str, pa.DataType], label: Label | None
    ) -> None:
        self._sampler, self._columns, self._label = sampler, columns, label
        self._start, self._process = sampler.position, os.getpid()
        self._first = self._next = passes.at(sampler, self._start)  # passes
        self._before: int | None = None  # passes before the trainer's epoch 0

    def set_epoch(self, epoch: int) -> None:
        """Set the pass of the next iteration; see ``to_hf``."""
        integer("epoch", epoch, 0)
        if self._before is None:  # a trainer that resumes may count from 0
            self._before = max(0, self._first - epoch)
        self._next = self._before + epoch

    def __call__(self) -> Iterator[dict[str, Any]]:
        if os.getpid() != self._process:
            _refuse_process()
        number, self._next = self._next, self._next + 1
        passes.begin(self._sampler, number)
        if number == self._first:
            self._sampler.move(self._start)
        expected = self._sampler.position
        while True:
            if self._sampler.position != expected:
                raise SamplerError(
                    f"the sampler moved from position {expected} to {self._sampler.position} while "
                    f"its to_hf() dataset was read; use another sampler for other batches"
                )
            batch = next(self._sampler, None)
            if batch is None:
                return
            expected = self._sampler.position
            yield from _table(batch, self._columns, self._label).to_pylist()

    def __reduce__(self) -> tuple[Any, ...]:
        # Data sets are distinguished by their pickles.
        settings = self._sampler.settings.fingerprint()
        return _elsewhere, (settings, self._start, list(self._columns), self._label)

    def __deepcopy__(self, memo: Mapping[int, Any]) -> _Rows:
        return self


def _elsewhere(*_: Any) -> Callable[[], NoReturn]:
    """Return the unpickled form of a sampler's rows; it refuses to run in another process."""
    return _refuse_process


def _refuse_process() -> NoReturn:
    raise SamplerError(
        "a to_hf() dataset reads in the process of its sampler: use dataloader_num_workers=0 (a "
        "thread already prepares its rows), or duckplets.torch.SamplerDataset"
    )


def _table(batch: Any, columns: dict[str, pa.DataType], label: Label | None) -> pa.Table:
    table: pa.Table = batch.table
    if label is not None and "documents" in columns:
        scores = pc.list_flatten(table["scores"])
        if scores.null_count:
            raise SamplerError(
                f"label='scores': after position {batch.position} a document of a list has no "
                f"score, because it is not mined; remove label="
            )
        table = table.append_column("label", table["scores"])
    elif label is not None:
        negatives = sum(name.startswith("negative") for name in columns)
        scores = [table[name].to_numpy() for name in _scores(negatives)]
        if np.isnan(margins := scores[0][:, None] - np.stack(scores[1:], axis=1)).any():
            at = batch.position + int(np.flatnonzero(np.isnan(margins).any(axis=1))[0])
            raise SamplerError(
                f"label={label!r}: a negative at position {at} has no score, because it is not "
                f"mined; open the run with negatives=dp.Negatives(…, when_short='drop')"
            )
        values = np.stack(scores, axis=1) if label == "scores" else margins
        values = values[:, 0] if columns["label"] == pa.float64() else values
        table = table.append_column("label", pa.array(values.tolist(), columns["label"]))
    if _NAME in columns:
        table = table.append_column(_NAME, table["source"].cast(pa.string()))
    return table.select(list(columns))


def _scores(negatives: int) -> list[str]:
    return [f"{slot}_score" for slot in slot_names("triplets", negatives)[1:]]


def _columns(sampler: Sampler, label: Label | None) -> dict[str, pa.DataType]:
    """Return the columns for a trainer, in order, with their types."""
    settings = sampler.settings
    checked("label", label, Label | None, SamplerError)
    has_label = settings.kind == "triplets" or (settings.kind, label) == ("lists", "scores")
    if label is not None and not has_label:
        raise SamplerError(f"label={label!r} is for triplets: remove it for {settings.kind}")
    if ARRAYS[0] in settings.columns:
        return dict.fromkeys(ARRAYS, pa.list_(pa.int32()))
    slots, kind = slot_names(settings.kind, settings.num), pa.string()
    if settings.kind == "messages":
        slots, kind = [*slots, "rejected_messages"], shaped_type(sampler.message_shape)
    found: dict[str, pa.DataType] = {slot: kind for slot in slots if slot in settings.columns}
    if settings.kind == "lists":
        found |= {slot: pa.list_(kind) for slot in slots[1:] if slot in found}
    if not found:
        raise SamplerError(
            f"this sampler has no texts: columns= has {', '.join(settings.columns)}; add "
            f"{', '.join(slots)}"
        )
    if settings.kind == "lists":
        name, column = ("labels", "labels") if label is None else ("label", "scores")
        if [*found] != slots or column not in settings.columns:
            raise SamplerError(
                f"a trainer takes whole lists: add {', '.join([*slots, column])} to columns="
            )
        found[name] = pa.list_(pa.float64())
    elif label is not None:
        names = _scores(settings.num)
        if len(found) < len(slots) or not {*names} <= {*settings.columns}:
            raise SamplerError(
                f"label={label!r} needs texts and scores: open the sampler with columns="
                f"[{listed(map(repr, [*slots, *names]), 7)}]"
            )
        is_list = label == "scores" or settings.num > 1
        found["label"] = pa.list_(pa.float64()) if is_list else pa.float64()
    elif "label" in settings.columns:
        found["label"] = pa.float64() if sampler.graded else pa.int64()
    also = {"padded", *(_scores(settings.num) if label is not None else ())}
    also.update(default_columns(settings.kind, settings.num), found)
    if others := [name for name in settings.columns if name not in also]:
        raise SamplerError(
            f"a trainer takes texts and a label, and columns= has {listed(others, 5)}: remove "
            f"them, or use scores with label='margin' or 'scores'"
        )
    return found


def _refuse_ranks(sampler: Sampler) -> None:
    settings = sampler.settings
    if settings.world_size > 1:
        raise SamplerError(
            f"this sampler is for rank {settings.rank} of {settings.world_size}, and a trainer "
            f"distributes rows to the ranks itself: open it with world_size=1"
        )


def imported(name: str) -> Any:
    """Import a module of an extra."""
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError as error:
        package = name.split(".")[0]
        raise ExtensionError(
            f"this needs the package {package}: pip install 'duckplets[hf]'"
        ) from error
