"""Train a tokenizer on the text of a split, unless an equal one exists."""

# The order of texts is fixed and the trainer counts words, so the number of threads has no effect.

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import TYPE_CHECKING, Any

from duckplets.base.arrays import Flags
from duckplets.base.atomic import aside_of, remove, sweep, written_aside
from duckplets.base.checks import integer
from duckplets.base.progress import bar
from duckplets.base.sanitize import Reported
from duckplets.base.stages import stage
from duckplets.db.writes import CorpusFile
from duckplets.errors import DamagedFileError, ExtensionError, ShardError
from duckplets.order.permute import below, hashed, key
from duckplets.tokens.documents import fingerprint_of, write_document
from duckplets.tokens.encode import KIND, TokenEncoder, encoded, fingerprint, training_note
from duckplets.tokens.manifest import STATE, TOKENIZER
from duckplets.tokens.settings import libraries
from duckplets.tokens.texts import SplitTexts
from duckplets.tokens.write import digest_of

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from duckplets.base.progress import Progress


SPECIAL = ("<s>", "</s>", "<pad>", "<unk>", "<mask>")
_VOCAB, _MERGES = "tokenizer-vocab.json", "tokenizer-merges.txt"
_TEXTS = {"train.txt": False, "val.txt": True}  # whether the file has held-out texts
_HELD_OUT = 10  # one text in ten is held out
_ALPHABET = 256
_AHEAD = 4  # queued batches of about a megabyte


@dataclass(frozen=True, slots=True)
class TokenizerReport(Reported):
    """A tokenizer, and the texts of its training.

    Attributes:
        path: Path of ``tokenizer.json``.
        fingerprint: SHA-256 of the bytes of ``tokenizer-vocab.json`` and ``tokenizer-merges.txt``.
        vocab_size: Number of tokens; less than requested if the text has no more.
        texts: Number of texts in training.
        held_out: Number of held-out texts.
        bytes_per_token: Mean bytes a token in held-out texts, or None without any.
        trained: Whether this call trained the tokenizer; False if it existed.
        why: Reason for training.
        seconds: Time of training.
    """

    path: Path
    fingerprint: str
    vocab_size: int
    texts: int
    held_out: int
    bytes_per_token: float | None
    trained: bool
    why: str
    seconds: float


@stage("train a tokenizer on")
def train_tokenizer(
    corpus: CorpusFile,
    out: str | Path,
    *,
    split: str = "train",
    sources: Sequence[str] | None = None,
    code: Sequence[str] = (),
    vocab_size: int = 32_000,
    min_frequency: int = 2,
    special: Sequence[str] = SPECIAL,
    seed: int = 42,
    texts: bool = False,
    progress: Progress | bool | None = None,
) -> TokenizerReport:
    """Train a byte-level BPE tokenizer on the text of one split of a corpus.

    The text of a record has its sections except rejected ones. White space becomes one space,
    except in code. One record of ten is held out, by a hash of its key, to measure the bytes of a
    token. The call writes ``tokenizer.json``, which chunking and ``Corpus.shard`` use,
    ``tokenizer-vocab.json``, ``tokenizer-merges.txt`` and ``export_state.json``. It does not train
    again while corpus, settings and library are the same and the files are undamaged.

    Args:
        corpus: A ``Corpus``.
        out: A folder, created if missing.
        split: ``train`` or ``validation``, never ``test``.
        sources: Names of sources; None for all.
        code: Names of sources whose white space stays. It also stays in records that gates
            classified as code.
        vocab_size: Largest number of tokens.
        min_frequency: Least number of occurrences of a pair that becomes a token.
        special: Special tokens. They get the first ids.
        seed: Seed of the choice of held-out records.
        texts: Whether to write the training texts (``train.txt``) and the held-out texts
            (``val.txt``), too. Each line is a text; code keeps its lines. The files need the room
            of all text.
        progress: A function that gets the number of read texts; True for a bar, None for a bar on
            a terminal.

    Raises:
        ShardError: An argument is wrong, or ``out`` has other files of these names.
        SplitError, SourceError: There is no such split or source, or there are no splits yet.
        ExtensionError: The package ``tokenizers`` is missing.
    """
    if split == "test":
        raise ShardError("split='test': evaluation would be biased; give 'train' or 'validation'")
    _need_tokenizers()
    read = SplitTexts(corpus.database, [split], sources, code)
    settings = {
        "split": split,
        "sources": read.sources,
        "code": list(read.code),
        "vocab_size": integer("vocab_size", vocab_size, _ALPHABET + len(special), 1 << 24),
        "min_frequency": integer("min_frequency", min_frequency, 1, 1 << 31),
        "special": _specials(special),
        "seed": integer("seed", seed, 0, (1 << 63) - 1),
    }
    inputs = {"corpus": read.origin(), "settings": settings, "libraries": libraries()}
    folder = Path(out)
    try:
        folder.mkdir(exist_ok=True, parents=True)
        known, why = _known(folder, inputs)
        if texts:
            _need_own(folder)
        if known is None:
            with bar(progress, sys.stderr, "texts") as advance:
                known = _train(read, folder, inputs, why, advance)
        if texts:
            _write_texts(folder, read, _held_out(settings, read))
        return known
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise ShardError(f"out={str(out)!r}: cannot write there: {why}") from error


def _need_tokenizers() -> None:
    try:
        import tokenizers  # noqa: F401 - only whether it is installed
    except ModuleNotFoundError as error:
        raise ExtensionError(
            "a tokenizer needs the package 'tokenizers': pip install 'duckplets[tokenizers]'"
        ) from error


def _specials(tokens: Sequence[str]) -> list[str]:
    names = [tokens] if isinstance(tokens, str) else list(tokens)
    if len(set(names)) < len(names) or not all(isinstance(name, str) and name for name in names):
        raise ShardError(f"special={names!r}: give each token once, none empty")
    return names


def _known(folder: Path, inputs: dict[str, Any]) -> tuple[TokenizerReport | None, str]:
    """Return the existing tokenizer if it is the requested one, or the reason for training."""
    names = (TOKENIZER, _VOCAB, _MERGES)
    try:
        note = training_note(folder)
    except DamagedFileError:
        return None, f"{STATE} is damaged"
    if note is None:
        foreign = [name for name in (*names, STATE) if (folder / name).exists()]
        if foreign:
            raise ShardError(f"{folder} has another {foreign[0]} in it; give another folder")
        return None, "there was none"
    for name in names:
        path = folder / name
        if not path.is_file() or digest_of(path) != note["files"].get(name):
            return None, f"{name} is damaged or missing"
    if note["fingerprint_of_inputs"] != fingerprint_of(inputs):
        changed = [name for name in inputs if note["inputs"].get(name) != inputs[name]]
        return None, f"{', '.join(changed)} changed"
    report = TokenizerReport(**note["report"] | {"path": folder / TOKENIZER})
    return replace(report, trained=False, why="", seconds=0.0), ""


def _train(
    texts: SplitTexts, folder: Path, inputs: dict[str, Any], why: str, advance: Progress | None
) -> TokenizerReport:
    begun, settings = time.monotonic(), inputs["settings"]
    keys = texts.places.keys
    if not len(keys):
        raise ShardError(f"split={settings['split']!r} has no text to train on")
    held_out = _held_out(settings, texts)
    for name in _noted_texts(folder):
        remove(folder / name)  # from another training
    write_document(folder / STATE, KIND, {"stage": "training", "files": {}})
    tokenizer = _untrained()
    _learn(tokenizer, _trainer(settings), _read(texts, ~held_out, advance))
    seconds = time.monotonic() - begun
    sweep(folder / TOKENIZER)
    aside = aside_of(folder / TOKENIZER)
    remove(aside)
    aside.mkdir()
    try:
        try:
            tokenizer.save(str(aside / TOKENIZER))
            tokenizer.model.save(str(aside), "tokenizer")
        except Exception as error:  # the library has no class of its own
            raise OSError(str(error)) from error
        report = TokenizerReport(
            path=folder / TOKENIZER,
            fingerprint=fingerprint(tokenizer),
            vocab_size=int(tokenizer.get_vocab_size()),
            texts=int((~held_out).sum()),
            held_out=int(held_out.sum()),
            bytes_per_token=_bytes_per_token(TokenEncoder(aside), texts, held_out),
            trained=True,
            why=why,
            seconds=seconds,
        )
        note = {
            "stage": "completed",
            "fingerprint": report.fingerprint,
            "fingerprint_of_inputs": fingerprint_of(inputs),
            "inputs": inputs,
            "files": {name: digest_of(aside / name) for name in (TOKENIZER, _VOCAB, _MERGES)},
            "report": asdict(report) | {"path": TOKENIZER},
        }
        # Files without a note, from a killed process, are written again.
        for name in (_VOCAB, _MERGES, TOKENIZER):
            os.replace(aside / name, folder / name)
        write_document(folder / STATE, KIND, note)
    finally:
        remove(aside)
    return report


def _held_out(settings: dict[str, Any], texts: SplitTexts) -> Flags:
    """Return which texts are held out; none if no text would remain for training."""
    keys = texts.places.keys
    held_out = below(hashed(key(settings["seed"], "held out"), keys), _HELD_OUT) == 0
    found: Flags = held_out & ~held_out.all()
    return found


def _noted_texts(folder: Path) -> dict[str, str]:
    """Return the digests of the text files written to a folder."""
    try:
        return dict((training_note(folder) or {}).get("texts", {}))
    except DamagedFileError:
        return {}


def _need_own(folder: Path) -> None:
    """Refuse to replace text files that no training has written."""
    noted = _noted_texts(folder)
    foreign = [name for name in _TEXTS if name not in noted and (folder / name).exists()]
    if foreign:
        raise ShardError(f"{folder} has another {foreign[0]} in it; give another folder")


def _write_texts(folder: Path, texts: SplitTexts, held_out: Flags) -> None:
    """Write training and held-out texts, unless the files are intact."""
    note = training_note(folder) or {}
    noted = note.get("texts", {})
    if all((folder / n).is_file() and digest_of(folder / n) == noted.get(n) for n in _TEXTS):
        return
    for name, is_held_out in _TEXTS.items():
        with written_aside(folder / name) as file:
            for batch in _read(texts, held_out == is_held_out, None):
                file.write("".join(f"{text}\n" for text in batch).encode())
    note["texts"] = {name: digest_of(folder / name) for name in _TEXTS}
    for extra in ("format", "kind"):
        note.pop(extra)
    write_document(folder / STATE, KIND, note)


def _untrained() -> Tokenizer:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


def _trainer(settings: dict[str, Any]) -> Any:
    from tokenizers import pre_tokenizers, trainers

    return trainers.BpeTrainer(
        vocab_size=settings["vocab_size"],
        min_frequency=settings["min_frequency"],
        special_tokens=settings["special"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )


def _learn(tokenizer: Tokenizer, trainer: Any, batches: Iterator[list[str]]) -> None:
    """Train on batches of texts; this thread produces them."""
    # The trainer pulls texts in its own threads. A generator resumed in another thread corrupted
    # memory there (tokenizers 0.23, Python 3.11), so the trainer pulls from a queue.
    waiting: Queue[list[str] | None] = Queue(maxsize=_AHEAD)
    failed: list[BaseException] = []

    def learn() -> None:
        texts = iter(waiting.get, None)
        try:
            tokenizer.train_from_iterator(texts, trainer)
        except BaseException as error:
            failed.append(error)
            for _ in texts:  # the producer must not wait for ever
                pass

    thread = Thread(target=learn, name="duckplets-train", daemon=True)
    thread.start()
    try:
        for batch in batches:
            waiting.put(batch)
    finally:
        waiting.put(None)
    thread.join()
    if failed:
        raise failed[0]


def _read(texts: SplitTexts, chosen: Flags, advance: Progress | None) -> Iterator[list[str]]:
    done, total = 0, int(chosen.sum())
    for block in texts.blocks(0, len(chosen), chosen):
        yield block.texts
        done += len(block.texts)
        if advance is not None:
            advance(done, total)


def _bytes_per_token(encoder: TokenEncoder, texts: SplitTexts, chosen: Flags) -> float | None:
    size = tokens = 0
    blocks = texts.blocks(0, len(chosen), chosen)
    with closing(encoded(encoder, blocks)) as found:
        for block, tokens_of in found:
            size += sum(len(text.encode()) for text in block.texts)
            tokens += int(tokens_of.counts.sum())
    return round(size / tokens, 4) if tokens else None
