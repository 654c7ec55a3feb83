"""Read a mixture from the ``[data]`` table of a TOML file, as KempnerForge's configs have it.

A file reads::

    [data]
    mix_temperature = 1.5

    [[data.datasets]]                            # one for each source
    name = "web"                                 # of the source in the corpus
    weight = 0.7                                 # 1 if left out, 0 is never

    [[data.datasets]]
    hf_name = "bigcode/the-stack-dedup"          # no name: that of the source it is ingested as
    weight = 0.3

    [[data.phases]]
    start_step = 10_000                          # 0 if left out
    dataset_weights = { web = 0.3 }              # the others keep the weight above
    lr_scale = 0.5

Instead of datasets there may be ``mixture = "equal"`` in ``[data]``, or ``"proportional"``, which
is what holds without either; instead of phases ``anneal_start_step``, where 0 is none, and
``anneal_weights``, with ``anneal_end_step`` and ``anneal_lr_scale``, which are ours. The text is
ingested already, so ``path``, ``hf_name`` and ``hf_config`` only serve to name a dataset that has
no name: ``bigcode--the-stack-dedup`` above, as ``hf://bigcode/the-stack-dedup`` is ingested, and of
a path its last part. As there, a phase may then call it by the whole of ``path`` or ``hf_name``.
Keys about reading and tokens are let be, with a note that says where these are set; so are tables
besides ``[data]``. Everything wrong in a file is reported at once.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duckplets.base.documents import DocumentLimits, read_document
from duckplets.base.sanitize import listed, shown
from duckplets.errors import MixtureError, nearest, several
from duckplets.order.weights import Weights, checked_positive, checked_step, checked_word

if TYPE_CHECKING:
    from os import PathLike

__all__ = ["read_mixture"]

log = logging.getLogger("duckplets")

_ANNEAL = ("anneal_start_step", "anneal_weights", "anneal_end_step", "anneal_lr_scale")
_DATA = ("mix_temperature", "datasets", "phases", *_ANNEAL, "mixture")
_DATASET = ("name", "path", "hf_name", "hf_config", "weight")
_PHASE = ("start_step", "dataset_weights", "lr_scale")

# What else that framework keeps in [data]: a single dataset, where none are listed, and reading.
_ONE = ("dataset_path", "hf_dataset_name", "hf_dataset_config")
_READING = (
    *("file_pattern", "tokenizer_path", "num_workers", "pin_memory", "prefetch_factor"),
    *("hf_dataset_split", "hf_dataset_text_field", "hf_streaming", "pack_sequences"),
    *("hf_dataset_image_field", "hf_dataset_prompt_field", "hf_image_size"),
)
_ENDING = re.compile(r"\.(npy|bin|parquet|jsonl?|csv|tsv|txt|arrow)(\.(gz|zst))?$", re.IGNORECASE)


def read_mixture(path: str | PathLike[str], limits: DocumentLimits | None = None) -> dict[str, Any]:
    """Read a file, within limits, into what ``Mixture.from_dict`` takes.

    Raises:
        MixtureError: The file is missing, unreadable or wrong; the message names the file and,
            for everything wrong in it, table and key.
    """
    file = Path(path)
    reader = _Reader()
    mixture = reader.mixture(read_document(file, "TOML", MixtureError, limits))
    if len(reader.problems) == 1:
        raise MixtureError(f"{file}: {reader.problems[0]}")
    if reader.problems:
        told = several(reader.problems).replace("\n", "\n  ")
        raise MixtureError(f"{file}: {len(reader.problems):,} mistakes\n  {told}")
    for note in reader.notes:
        log.warning("%s: %s", shown(file), note)
    return mixture


class _Reader:
    """Reads tables and collects what is wrong with them.

    Attributes:
        problems: One line each.
        notes: What is not wrong and may surprise, one line each.
    """

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.notes: list[str] = []
        self._weights: dict[str, float] = {}
        self._whole: dict[str, str] = {}  # path or hf_name -> the name filled in from it
        self._all_named = True

    def mixture(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """Read the whole of a file."""
        self._check_top(content)
        data = content.get("data", {})
        if not isinstance(data, Mapping):
            self.problems.append(f"data={data!r}: write a table, [data]")
            data = {}
        self._check_keys("data", data, _DATA)
        self._note_reading(data)
        temperature = data.get("mix_temperature", 1.0)
        temperature = self._try(checked_positive, "data", "mix_temperature", temperature)
        for i, table in enumerate(self._tables(data, "datasets")):
            self._dataset(f"data.datasets[{i}]", table)
        phases = [
            self._phase(f"data.phases[{i}]", table)
            for i, table in enumerate(self._tables(data, "phases"))
        ]
        self._check_rising([phase["start_step"] for phase in phases])
        return {
            "weights": self._word(data) if "mixture" in data else self._weights or "proportional",
            "temperature": temperature,
            "phases": phases,
            "anneal": self._anneal(data, bool(phases)),
        }

    def _word(self, data: Mapping[str, Any]) -> Any:
        """Return the word that stands in the place of datasets."""
        if "mixture" in data and data.get("datasets"):
            self.problems.append("data: mixture and datasets; give one of the two")
        return self._try(checked_word, data["mixture"], "data: mixture")

    def _check_top(self, content: Mapping[str, Any]) -> None:
        """Let other tables be, unless they are meant to be ours."""
        for key, value in content.items():
            if key in _DATA:
                self.problems.append(f"{key} stands outside of [data]; move it there")
            elif key != "data" and isinstance(value, Mapping) and value.keys() & set(_DATA):
                hint = nearest(key, ["data"])
                if hint and len(key) <= len("data") + 1:  # not metadata
                    self.problems.append(f"unknown table [{key}]{hint}")
        if "data" not in content and not self.problems:
            self.problems.append(
                "there is no [data] table; write [[data.datasets]] tables with name and weight"
            )

    def _dataset(self, what: str, table: Mapping[str, Any]) -> None:
        """Read ``[[data.datasets]]``: a name and its weight."""
        self._check_keys(what, table, _DATASET)
        name = self._dataset_name(what, table)
        weights = self._given(what, {name or "(no name)": table.get("weight", 1.0)})
        if name in self._weights:
            self.problems.append(f"{what}: a second dataset {name!r}; give each a name of its own")
        elif name:
            self._weights[name] = weights.get(name, 1.0)
        self._all_named &= bool(name)

    def _dataset_name(self, what: str, table: Mapping[str, Any]) -> str:
        """Return the name, or one from ``path``, else from ``hf_name``; empty if there is none."""
        texts = {key: table.get(key, "") for key in ("name", "path", "hf_name", "hf_config")}
        wrong = {key: text for key, text in texts.items() if not isinstance(text, str)}
        self.problems += [f"{what}: {key}={text!r}; give text" for key, text in wrong.items()]
        if wrong or texts["name"]:
            return "" if "name" in wrong else texts["name"]
        whole = texts["path"] or texts["hf_name"]
        if texts["path"]:
            name = _ENDING.sub("", re.split(r"[/\\]", whole.rstrip("/\\"))[-1])
        else:
            name = _hub_name(whole, texts["hf_config"])
        if not name or re.search(r"[*?\[]", name):
            why = f"none can be made of {whole!r}" if whole else "no path or hf_name to make one of"
            self.problems.append(f"{what}: no name, and {why}; give the name of a source")
            return ""
        self._whole[whole] = name
        return name

    def _phase(self, what: str, table: Mapping[str, Any]) -> dict[str, Any]:
        self._check_keys(what, table, _PHASE)
        start_step = self._try(checked_step, what, "start_step", table.get("start_step", 0))
        lr_scale = table.get("lr_scale", 1.0)
        weights = table.get("dataset_weights", {})
        return {
            "start_step": start_step,
            "weights": self._override(f"{what}: dataset_weights", weights),
            "lr_scale": self._try(checked_positive, what, "lr_scale", lr_scale),
        }

    def _anneal(self, data: Mapping[str, Any], phases: bool) -> dict[str, Any] | None:
        """Read the shortcut. Step 0 is that framework's way to say that there is none."""
        step, given, end, lr_scale = (data.get(key) for key in _ANNEAL)
        off = type(step) is int and step == 0
        anneal = {"weights": self._override("data: anneal_weights", {} if given is None else given)}
        if end is not None:
            anneal["end_step"] = self._try(checked_step, "data", "anneal_end_step", end)
        if lr_scale is not None:
            anneal["lr_scale"] = self._try(checked_positive, "data", "anneal_lr_scale", lr_scale)
        told = [key for key in _ANNEAL[1:] if data.get(key) not in (None, {})]
        if off or (step is None and not told and given in (None, {})):
            if told:
                self.notes.append(
                    f"anneal_start_step = 0 means no annealing, so without effect: "
                    f"{', '.join(told)}; for other weights from the start on write a phase with "
                    f"start_step = 0"
                )
            return None
        if phases:
            self.problems.append(
                "data: phases and anneal_start_step or anneal_weights; give one of the two"
            )
        elif not given:
            self.problems.append(
                f"data: {told[0] if step is None else 'anneal_start_step'} without anneal_weights; "
                f"give both"
            )
        elif step is None:
            self.problems.append(f"data: {told[0]} without anneal_start_step; give both")
        start = self._try(checked_step, "data", "anneal_start_step", 0 if step is None else step)
        if start is not None and anneal.get("end_step") is not None and anneal["end_step"] <= start:
            self.problems.append(
                f"data: anneal_end_step={anneal['end_step']} must be more than "
                f"anneal_start_step={start}; leave it out to change the weights at once"
            )
        return {"start_step": start, **anneal}

    def _override(self, what: str, table: Any) -> dict[str, float]:
        """Read weights by the names of datasets; any will do where the file lists none."""
        weights = {}
        for called, weight in self._given(what, table).items():
            name = called if called in self._weights else self._whole.get(called, called)
            if self._weights and self._all_named and name not in self._weights:
                self.problems.append(
                    f"{what}: no dataset {called!r}{nearest(called, self._weights)}; there are: "
                    f"{listed(self._weights)}"
                )
            if name in weights:
                self.problems.append(f"{what}: {name!r} is there twice, also as {called!r}")
            weights[name] = weight
        return weights

    def _given(self, what: str, table: Any) -> dict[str, float]:
        """Return the weights of a table that are right."""
        entries = [{key: w} for key, w in table.items()] if isinstance(table, Mapping) else [table]
        right: dict[str, float] = {}
        for entry in entries:
            right |= self._try(Weights, entry, what) or {}
        return right

    def _tables(self, data: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
        tables = data.get(key, [])
        if isinstance(tables, list) and all(isinstance(table, Mapping) for table in tables):
            return tables
        self.problems.append(f"data.{key}: a list of tables is wanted; write [[data.{key}]]")
        return []

    def _note_reading(self, data: Mapping[str, Any]) -> None:
        """Say once which keys of a training file have no effect here."""
        ignored = [key for key in data if key in _READING or (key in _ONE and data.get("datasets"))]
        if ignored:
            self.notes.append(
                f"of [data] these have no effect on a mixture, for text is read when it is "
                f"ingested, a tokenizer is given to shard, and packing to the sampler: "
                f"{', '.join(ignored)}"
            )

    def _check_keys(self, what: str, table: Mapping[str, Any], known: tuple[str, ...]) -> None:
        for key in table:
            if key in known or (what == "data" and key in _READING):
                continue
            if what == "data" and key in _ONE:
                if table.get("datasets"):
                    continue
                told = "; give each dataset as [[data.datasets]], with the name of its source"
            else:
                told = f"{nearest(key, known)}; keys: {', '.join(known)}"
            self.problems.append(f"{what}: unknown key {key!r}{told}")

    def _check_rising(self, steps: list[int | None]) -> None:
        before = -1
        for i, step in enumerate(steps):
            if step is not None and step <= before:
                self.problems.append(
                    f"data.phases[{i}]: start_step={step} after one of {before}; start_step must "
                    f"rise from phase to phase"
                )
            before = before if step is None else step

    def _try(self, check: Any, *arguments: Any) -> Any:
        """Return what a check returns, or None and one more problem."""
        try:
            return check(*arguments)
        except MixtureError as error:
            self.problems.append(str(error))
            return None


def _hub_name(hf_name: str, hf_config: str) -> str:
    """Return the name of the source that ``hf://hf_name`` with its configuration is ingested as."""
    *org, name = hf_name.strip("/").split("/")
    config = hf_config if org and hf_config != "default" else ""  # without an org it is no URI
    kept = [part for part in (*org, name, config) if part]
    return "--".join(re.sub(r"[^\w.-]", "_", part) for part in kept)[:200]
