"""Turn a run into Hugging Face datasets, for the trainer of sentence-transformers."""

# That trainer tokenises every column in order, so a dataset has the text columns and a label only.

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

_NAME = "dataset_name"  # of sentence-transformers

Label: TypeAlias = Literal["margin", "scores"]

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duckplets.runs.sampler import Sampler

_BEGINNINGS: WeakKeyDictionary[Sampler, int] = WeakKeyDictionary()  # positions, of to_hf


def to_hf(
    sampler: Sampler,
    start_step: int | None = None,
    *,
    dataset_name: bool = False,
    label: Label | None = None,
) -> Any:
    """Return the rows from where a sampler stands as a ``datasets.IterableDataset``.

    Its features are the text columns in order, and for pairs the label, an integer or, where a
    source has grades, a float; so a ``SentenceTransformerTrainer`` takes it with ``max_steps``.
    Of token shards they are the four arrays of a row, as lists of int32, for a ``Trainer``.
    With the sampler's batch size as ``per_device_train_batch_size`` its batches are the sampler's.

    It drives the sampler. A second iteration continues with the next epoch, as for
    ``duckplets.torch.SamplerDataset``, and ``set_epoch`` is the same; trainers call it. One that
    counts its epochs anew when it resumes begins where the sampler is. As ``eval_dataset`` it needs
    ``epochs=1``, and every evaluation has the same rows.

    The trainer reads ahead, so where training stands is its ``global_step``, not the sampler's: let
    ``hf_callback`` save the run. To resume without reading anew what was used, begin with the step
    that was saved and set the trainer's ``ignore_data_skip=True``. Use no workers of a DataLoader;
    a thread prepares the rows already.

    Args:
        sampler: Of all ranks in one (``world_size=1``): a trainer deals rows out by itself.
        start_step: Where to begin, instead of where the sampler stands.
        dataset_name: Add the source of each row as ``dataset_name``, by which
            sentence-transformers chooses prompts (``prompts={source: …}``). It reads the first
            row's for a whole batch, so batches have to be of one source (``batch_by=``). Its
            arguments need ``accelerator_config={"dispatch_batches": False}``, for accelerate deals
            out no text. For a loss of each source set ``trainer.loss = {source: loss}`` once the
            trainer is made: its constructor wants a ``DatasetDict`` for that.
        label: Add ``label`` from the scores of mined triplets, for distillation. ``"margin"``: the
            positive's minus the negative's, a list if there are several. ``"scores"``: a list, the
            positive's first. The sampler's ``columns=`` must have ``positive_score`` and that of
            each negative. Of lists ``"scores"`` takes the place of ``labels``.

    Raises:
        ExtensionError: ``datasets`` is not installed.
        SamplerError: There is no such step, or no batch left; the sampler is that of one rank of
            several; its ``columns=`` leave out all texts or the scores of a label, or have one
            that is no text; or its batches are of several sources. From an iteration: a negative
            has no score.
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
    _BEGINNINGS[sampler] = sampler.position
    if dataset_name:  # the trainer refuses the column in data sets that it has not made itself
        made._sentence_transformers_preprocessed = True
    return made


def _refuse_mixed(sampler: Sampler) -> None:
    settings = sampler.settings
    drawn = {stream.source for stream in sampler.planner.streams}
    if "source" not in settings.columns:
        raise SamplerError("dataset_name=True is the column source, which columns= leaves out")
    if not settings.batch_by and len(drawn) > 1:
        raise SamplerError(
            f"dataset_name=True: sentence-transformers takes the name of a batch's first row for "
            f"all of it, and batches of this run are of {listed(map(repr, sorted(drawn)))}; open "
            f"the sampler with batch_by='source'"
        )
    schedule = sampler.planner.schedule
    if any(schedule.at(step).mixed(step)[0] for step in schedule.changes):
        raise SamplerError(
            "dataset_name=True: batch_by='source' in proportion to anchors has some batches of "
            "several sources; give the sampler weights, as in mixture={'web': 2, 'faq': 1}: every "
            "batch is then of one source"
        )


def _at_end(sampler: Sampler) -> SamplerError:
    return SamplerError(
        f"this run is at its end, position {sampler.position}: it has no batch left; open it with "
        f"more steps= or epochs="
    )


def to_hf_dataset(sampler: Sampler, steps: int, *, label: Label | None = None) -> Any:
    """Return the rows of the next batches as a ``datasets.Dataset``; the sampler stays.

    A bounded run that ends before gives the batches it has left. Of lists the columns are
    ``anchor``, ``documents`` and ``labels``: a ``CrossEncoderTrainer`` takes them for listwise
    losses such as ``LambdaLoss``, with ``hf_batch_sampler``. It takes no ``to_hf``.

    Args:
        sampler: The run.
        steps: Number of batches.
        label: As for ``to_hf``.

    Raises:
        ExtensionError: ``datasets`` is not installed.
        SamplerError: The run has no batch left, its ``columns=`` leave out all texts or the scores
            of a label, or have one that is no text; or a negative has no score.
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
    """Return what to give as ``batch_sampler=``, which keeps the batches of ``to_hf_dataset``.

    Every epoch has the same batches in the same order: those of the dataset. The trainer's
    ``per_device_train_batch_size`` has to be the sampler's batch size.

    Args:
        sampler: That of the dataset; all ranks in one, for a trainer deals batches out by itself.

    Raises:
        ExtensionError: ``sentence_transformers`` is not installed.
        SamplerError: The sampler is that of one rank of several.
    """
    _refuse_ranks(sampler)
    imported("sentence_transformers")
    from duckplets.adapters.kept_batches import KeptBatches

    return partial(KeptBatches, of_run=sampler.settings.batch_size)


def hf_callback(sampler: Sampler) -> Any:
    """Return a ``TrainerCallback`` that saves the run with every checkpoint of a trainer.

    The file is ``CHECKPOINT/sampler.state.duckdb``, and it says which batch the trainer uses next:
    the sampler itself is ahead of it. To go on after a kill::

        checkpoint = transformers.trainer_utils.get_last_checkpoint(output_dir)
        sampler = dp.resume(corpus, state=f"{checkpoint}/sampler.state.duckdb")
        trainer = Trainer(…, train_dataset=sampler.to_hf(), callbacks=[sampler.hf_callback()])
        trainer.train(resume_from_checkpoint=checkpoint)  # with ignore_data_skip=True

    Args:
        sampler: That of the dataset the trainer reads, of ``to_hf``; all ranks in one.

    Raises:
        ExtensionError: ``transformers`` is not installed.
        SamplerError: The sampler is that of one rank of several. From the trainer, before its
            first step: its batches are not the sampler's; it asks for more than a bounded run has;
            it would pass over batches that a resumed sampler has passed; or accelerate would deal
            out texts. From its first evaluation: ``eval_dataset`` is an endless run.
    """
    _refuse_ranks(sampler)
    callbacks = imported("transformers").TrainerCallback

    class SavesSampler(callbacks):  # type: ignore[misc, valid-type]
        """Save a run beside every checkpoint; see ``hf_callback``."""

        def on_train_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            """Note where training begins, and refuse what would not be the sampler's batches."""
            loader = type(others.get("train_dataloader")).__name__
            if args.world_size > 1 and loader == "DataLoaderDispatcher":
                _refuse_dispatch(sampler)
            self._used = _used_steps(sampler, args, state)
            if state.max_steps > 0:
                _refuse_beyond(sampler, self._used(state.max_steps))

        def on_prediction_step(
            self, args: Any, state: Any, control: Any, eval_dataloader: Any = None, **_: Any
        ) -> None:
            """Refuse to evaluate what has no end."""
            data = eval_dataloader
            while hasattr(data, "dataset"):  # of a loader, and of accelerate's part for a rank
                data = data.dataset
            if getattr(data, "_is_endless", False):
                raise SamplerError(
                    "eval_dataset= is an endless run, so this evaluation would never end: open its "
                    "sampler with epochs=1 (or steps=), as in corpus.sampler(split='validation', "
                    "epochs=1).to_hf()"
                )

        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            """Save the step that comes after those the checkpoint has used."""
            if state.is_world_process_zero:
                checkpoint = Path(args.output_dir) / f"checkpoint-{state.global_step}"
                path = checkpoint / "sampler.state.duckdb"
                path.unlink(missing_ok=True)  # of an earlier run saved there
                sampler.save(path=path, step=self._used(state.global_step))

    return SavesSampler()


def hf_logger(sampler: Sampler, trainer: Any, *, every: int = 100) -> Any:
    """Return a ``TrainerCallback`` that logs what a trainer uses of a run, to where it reports.

    Its forecast at the start and its metrics every few steps, as ``duckplets.log_run`` has them,
    go through ``trainer.log``: callbacks that report, to TensorBoard, MLflow and others, run before
    any that is added, so one that adds to the logs would come too late. What the trainer read ahead
    does not count. The run's id is written as ``data_run`` into the parameters of MLflow, the
    config of W&B and Trackio, and as a text of TensorBoard::

        trainer.add_callback(sampler.hf_logger(trainer, every=50))

    A reporter that raises on these ends no training; a warning says so once.

    Args:
        sampler: That of the dataset the trainer reads, of ``to_hf``; all ranks in one.
        trainer: The trainer, which may be one of sentence-transformers.
        every: Steps of the trainer from one logging of metrics to the next.

    Raises:
        ExtensionError: ``transformers`` is not installed.
        SamplerError: As of ``hf_callback``, or ``every`` is no number of steps.
    """
    _refuse_ranks(sampler)
    integer("every", every, 1)
    callbacks = imported("transformers").TrainerCallback

    def log(values: dict[str, float], _step: int) -> None:
        is_due = trainer.control.should_log
        try:
            trainer.log(values)
        finally:  # which takes it for the logging of this step's loss
            trainer.control.should_log = is_due

    class LogsRun(callbacks):  # type: ignore[misc, valid-type]
        """Log a run through a trainer; see ``hf_logger``."""

        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            """Log what the run is and its forecast."""
            self._used = _used_steps(sampler, args, state)
            if state.is_world_process_zero:
                for callback in trainer.callback_handler.callbacks:
                    SafeLogger(lambda values, to=callback: _configure(to, values))(
                        {"data_run": sampler.run_id}
                    )
                self._log = log_run(sampler, log, every=1)

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            """Log what was used up to this step."""
            if state.is_world_process_zero and state.global_step % every == 0:
                self._log(self._used(state.global_step))

    return LogsRun()


def _configure(callback: Any, values: dict[str, str]) -> None:
    """Add to the config of a reporting callback of transformers, which it has written already."""
    if tracked := getattr(callback, "_ml_flow", None):
        tracked.log_params(values)
    elif writer := getattr(callback, "tb_writer", None):
        for name, value in values.items():
            writer.add_text(name, value)
    elif tracked := getattr(callback, "_wandb", None) or getattr(callback, "_trackio", None):
        tracked.config.update(values, allow_val_change=True)


def _used_steps(sampler: Sampler, args: Any, state: Any) -> Callable[[int], int]:
    """Return how to tell the run's step from a trainer's, as a trainer begins."""
    batches = _batches_a_step(sampler, args)
    start = _BEGINNINGS.get(sampler, sampler.position) // sampler.settings.global_batch
    used = state.global_step * batches
    # Without ignore_data_skip the trainer reads again the batches that it used before.
    first = start - used if args.ignore_data_skip else start
    if first < 0:
        raise SamplerError(
            f"the trainer continues after {used} batches, and the sampler at step {start}: resume "
            f"it from the state file in the checkpoint that the trainer resumes from"
        )
    if used and start and not args.ignore_data_skip and sampler in _BEGINNINGS:
        raise SamplerError(
            f"the trainer passes over the {used} batches it used before, and the sampler is at "
            f"step {start} already: set ignore_data_skip=True in its arguments"
        )
    return lambda step: int(first + step * batches)


def _batches_a_step(sampler: Sampler, args: Any) -> int:
    """Return how many batches a trainer uses per step."""
    rows = args.train_batch_size * args.world_size
    expected = sampler.settings.batch_size
    if rows != expected:
        raise SamplerError(
            f"the trainer takes {rows} rows at once ({args.train_batch_size} on each of "
            f"{args.world_size} processes), and a batch of this run has {expected}: open the "
            f"sampler with batch_size={rows}, so that its steps are the trainer's"
        )
    return int(args.gradient_accumulation_steps)


def _refuse_beyond(sampler: Sampler, step: int) -> None:
    try:
        there = len(sampler)
    except TypeError:  # it is endless
        return
    if step > there:
        raise SamplerError(
            f"the trainer would use {step} batches, and this run has {there}: leave out steps= "
            f"and epochs= of the sampler, and let max_steps end the training"
        )


def _refuse_dispatch(sampler: Sampler) -> None:
    if ARRAYS[0] not in sampler.settings.columns:  # whose batches are all of one width
        raise SamplerError(
            "accelerate would deal out batches of one process, and cannot where texts differ in "
            'length: set accelerator_config={"dispatch_batches": False} in the arguments of the '
            "trainer; every process then reads the run, and takes its rows"
        )


class _Rows:
    """The rows of a sampler, a pass at each call; the first begins at its position."""

    def __init__(
        self, sampler: Sampler, columns: dict[str, pa.DataType], label: Label | None
    ) -> None:
        self._sampler, self._columns, self._label = sampler, columns, label
        self._start, self._process = sampler.position, os.getpid()
        self._first = self._next = passes.at(sampler, self._start)  # passes
        self._before: int | None = None  # passes before the trainer's epoch 0

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration be a pass; see ``to_hf``."""
        integer("epoch", epoch, 0)
        if self._before is None:  # a trainer that resumes may count anew
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
                    f"the sampler was moved from position {expected} to {self._sampler.position} "
                    f"while its to_hf() dataset was read; take nothing from it meanwhile, or open "
                    f"another sampler"
                )
            batch = next(self._sampler, None)
            if batch is None:
                return
            expected = self._sampler.position
            yield from _table(batch, self._columns, self._label).to_pylist()

    def __reduce__(self) -> tuple[Any, ...]:
        # Data sets are distinguished by their pickles, and so are these.
        of = self._sampler.settings.fingerprint(), self._start, list(self._columns), self._label
        return _elsewhere, of

    def __deepcopy__(self, memo: Mapping[int, Any]) -> _Rows:
        return self


def _elsewhere(*_: Any) -> Callable[[], NoReturn]:
    """Return the unpickled form of a sampler's rows, which refuses to run in another process."""
    return _refuse_process


def _refuse_process() -> NoReturn:
    raise SamplerError(
        "a to_hf() dataset reads in the process of its sampler: use dataloader_num_workers=0 (a "
        "thread prepares its rows already), or duckplets.torch.SamplerDataset"
    )


def _table(batch: Any, columns: dict[str, pa.DataType], label: Label | None) -> pa.Table:
    """Return the columns of a batch that a trainer takes."""
    table: pa.Table = batch.table
    if label is not None and "documents" in columns:
        scores = pc.list_flatten(table["scores"])
        if scores.null_count:
            raise SamplerError(
                f"label='scores': a document of a list from position {batch.position} on has no "
                f"score, for it is not mined; leave out label="
            )
        table = table.append_column("label", table["scores"])
    elif label is not None:
        negatives = sum(name.startswith("negative") for name in columns)
        scores = [table[name].to_numpy() for name in _scores(negatives)]
        if np.isnan(margins := scores[0][:, None] - np.stack(scores[1:], axis=1)).any():
            at = batch.position + int(np.flatnonzero(np.isnan(margins).any(axis=1))[0])
            raise SamplerError(
                f"label={label!r}: a negative at position {at} has no score, for it is not mined; "
                f"open it with negatives=dp.Negatives(…, when_short='drop')"
            )
        values = np.stack(scores, axis=1) if label == "scores" else margins
        values = values[:, 0] if columns["label"] == pa.float64() else values
        table = table.append_column("label", pa.array(values.tolist(), columns["label"]))
    if _NAME in columns:
        table = table.append_column(_NAME, table["source"].cast(pa.string()))
    return table.select(list(columns))


def _scores(negatives: int) -> list[str]:
    """Return the columns of scores, the positive's first."""
    return [f"{slot}_score" for slot in slot_names("triplets", negatives)[1:]]


def _columns(sampler: Sampler, label: Label | None) -> dict[str, pa.DataType]:
    """Return the columns a trainer takes, in order, with their types."""
    settings = sampler.settings
    checked("label", label, Label | None, SamplerError)
    has_label = settings.kind == "triplets" or (settings.kind, label) == ("lists", "scores")
    if label is not None and not has_label:
        raise SamplerError(f"label={label!r}: it is of triplets; leave it out for {settings.kind}")
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
        name, asked = ("labels", "labels") if label is None else ("label", "scores")
        if [*found] != slots or asked not in settings.columns:
            raise SamplerError(
                f"a trainer takes whole lists: add {', '.join([*slots, asked])} to columns="
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
    if left := [name for name in settings.columns if name not in also]:
        raise SamplerError(
            f"a trainer takes texts and a label, and columns= has {listed(left, 5)}: leave them "
            f"out, or give label='margin' or 'scores' for scores"
        )
    return found


def _refuse_ranks(sampler: Sampler) -> None:
    settings = sampler.settings
    if settings.world_size > 1:
        raise SamplerError(
            f"this sampler is of rank {settings.rank} of {settings.world_size}, and a trainer "
            f"deals out what it gets to the ranks by itself: open it with world_size=1"
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
