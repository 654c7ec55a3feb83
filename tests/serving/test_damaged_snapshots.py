"""Damage to a snapshot: every byte is checked by doctor, and none leads a reader astray."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from commands import cli
from corpora import odd_corpus
from effort import THOROUGH, often
from prebuilt import copied

import duckplets as dp
from duckplets.serving import snapshot


@pytest.fixture(scope="module")
def prepared_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("damaged") / "c.duckdb"
    copied(path, odd_corpus, often(80, less=30), 1, sources=often(2, less=1))
    with dp.Corpus(path, read_only=True) as corpus:
        corpus.prepare()
    return path


@pytest.fixture
def prepared(prepared_once: Path, tmp_path: Path) -> Path:
    shutil.copytree(prepared_once.parent, tmp_path, dirs_exist_ok=True)
    return tmp_path / prepared_once.name


def outcome(path: Path) -> str:
    """What becomes of a run over a corpus whose snapshot may be damaged."""
    try:
        with dp.Corpus(path, read_only=True) as corpus:
            sampler = corpus.sampler(batch_size=16, columns=["anchor", "positive", "negative"])
            for _ in range(often(20, less=5)):
                batch = next(sampler)
                list(batch)
                batch.to_numpy()
                batch._repr_html_()
            sampler.served(0, 64)
            columns = ["record_id", "text", "anchor"]
            for batch in corpus.read(range(corpus.count()), columns=columns):
                batch.to_pydict()
    except dp.errors.DamagedFileError:
        return "refused"
    return "served"


def problems(path: Path) -> list[str]:
    try:
        return list(snapshot.verify(snapshot.folder_of(path)))
    except dp.errors.DamagedFileError as error:
        return [str(error)]


@pytest.mark.parametrize("seed", range(often(4, less=1)))
def test_flipped_bytes_are_found_and_lead_nowhere(prepared: Path, seed: int) -> None:
    draw, seen = random.Random(seed), set()
    folder = snapshot.folder_of(prepared)
    files = sorted(path for path in folder.iterdir() if path.name != "lock")
    assert not problems(prepared)
    for number in range(often(300, less=8)):
        file = files[number % len(files)]
        whole = file.read_bytes()
        data = bytearray(whole)
        for _ in range(draw.choice([1, 1, 8])):
            at = draw.randrange(len(data))
            data[at] ^= draw.choice([1 << draw.randrange(8), 0xFF])
        if number % 4 == 3:  # cut off instead
            data = whole[: draw.choice([0, 1, len(whole) // 2, len(whole) - 1])]
        if data == whole:
            continue
        file.write_bytes(data)
        assert problems(prepared), f"{file.name} is not as it was, which nobody tells"
        seen.add(outcome(prepared))
        if number < len(files) and THOROUGH:  # lost
            file.unlink()
            assert file.name == "manifest.json" or problems(prepared)
            seen.add(outcome(prepared))
        file.write_bytes(whole)
    assert seen <= {"served", "refused"}
    assert outcome(prepared) == "served"


def test_doctor_says_so_and_deleting_helps(prepared: Path) -> None:
    folder = snapshot.folder_of(prepared)
    assert "every byte is as it was written" in cli("doctor", prepared).stdout
    (texts,) = folder.glob("texts-*")
    data = bytearray(texts.read_bytes())
    data[len(data) // 2] ^= 1
    texts.write_bytes(data)
    found = cli("doctor", prepared)
    assert found.exit_code == 1
    assert f"{texts} is not as it was written" in found.stdout
    shutil.rmtree(folder)
    assert outcome(prepared) == "served"
    assert cli("doctor", prepared).exit_code == 0
