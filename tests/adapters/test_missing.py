"""Without the packages, the adapters say which to install; all else does without them."""

import subprocess
import sys
from pathlib import Path

import pytest

import duckplets as dp

ROOT = Path(__file__).parent.parent.parent


def test_without_pytorch_its_module_says_so():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import duckplets as dp\n"
        "try:\n    import duckplets.torch\n"
        "except dp.errors.ExtensionError as error:\n    print(error)"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert run.stdout == "duckplets.torch needs PyTorch: pip install 'duckplets[torch]'\n", (
        run.stderr
    )


def test_without_hugging_faces_packages_a_sampler_says_so(corpus_path, monkeypatch):
    for name in ("datasets", "sentence_transformers", "sentence_transformers.base.sampler"):
        monkeypatch.setitem(sys.modules, name, None)
    with dp.Corpus(corpus_path, read_only=True) as corpus:
        sampler = corpus.sampler()
        for give in (sampler.to_hf, lambda: sampler.to_hf_dataset(1)):
            with pytest.raises(dp.errors.ExtensionError, match=r"datasets: pip .*duckplets\[hf\]"):
                give()
        with pytest.raises(dp.errors.ExtensionError, match=r"sentence_transformers: pip "):
            sampler.hf_batch_sampler()
