"""Exports are read by those they are for: trainers of sentence-transformers, the loader of BEIR."""

import pytest

datasets = pytest.importorskip("datasets")

from adapters import models  # noqa: E402
from adapters.models import st  # noqa: E402
from effort import THOROUGH  # noqa: E402
from mined_by_hand import RECIPE, expected, kept, mine_by_hand, odd_text_corpus  # noqa: E402
from sentence_transformers import cross_encoder  # noqa: E402
from sentence_transformers.cross_encoder import losses as ranking  # noqa: E402
from sentence_transformers.sentence_transformer import losses  # noqa: E402

BATCH = 4


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("export") / "odd.duckdb"
    with odd_text_corpus(path, 24) as corpus:
        mine_by_hand(corpus)
        yield corpus


@pytest.fixture(scope="module")
def model():
    return models.embedder()


@pytest.fixture(scope="module")
def ranker():
    return models.ranker()


@pytest.fixture(autouse=True)
def _quiet(tmp_path, monkeypatch):
    datasets.disable_progress_bars()
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


def exported(corpus, path, **options):
    corpus.export(path, recipe=options.pop("recipe", RECIPE), **options)
    return path


def loaded(path):
    kind = "parquet" if path.suffix == ".parquet" else "json"
    return datasets.load_dataset(kind, data_files=str(path), split="train")


# ---- sentence-transformers

TRIPLET = ["anchor", "positive", "negative"]
TUPLE = ["anchor", "positive", "negative_1", "negative_2"]
PAIR, LIST = ["anchor", "document"], ["anchor", "documents"]
# shape, scores, loss, whether it is one of cross-encoders, text columns
TRAININGS = [
    ("triplet", False, losses.MultipleNegativesRankingLoss, False, TRIPLET),
    ("triplet", True, losses.MarginMSELoss, False, TRIPLET),
    ("n-tuple", False, losses.MultipleNegativesRankingLoss, False, TUPLE),
    ("n-tuple", True, losses.MarginMSELoss, False, TUPLE),
    ("labeled-pair", False, losses.ContrastiveLoss, False, PAIR),
    ("labeled-pair", True, losses.CoSENTLoss, False, PAIR),
    ("labeled-pair", False, ranking.BinaryCrossEntropyLoss, True, PAIR),
    ("labeled-list", False, ranking.LambdaLoss, True, LIST),
    ("labeled-list", True, ranking.ListNetLoss, True, LIST),
]


def trained(model, dataset, loss, folder, monkeypatch):
    """Train for two steps; returns the rows and the labels that the collator saw and made."""
    crossed = isinstance(model, st.CrossEncoder)
    package = cross_encoder if crossed else st
    kind = "CrossEncoderTrainer" if crossed else "SentenceTransformerTrainer"
    trainer = getattr(package, kind)(
        model=model,
        args=models.arguments(folder, 2, BATCH, crossed=crossed),
        train_dataset=dataset,
        loss=loss(model),
    )
    seen = []
    labels = []
    collate = type(trainer.data_collator).__call__

    def watched(collator, features):
        batch = collate(collator, features)
        seen.extend(features)
        labels.extend(batch["label"].tolist() if "label" in batch and not crossed else [])
        return batch

    monkeypatch.setattr(type(trainer.data_collator), "__call__", watched)
    done = trainer.train()
    assert done.global_step == 2
    return seen, labels


# Both suffixes load alike, see below: each shape is trained from one of them, or in full from both.
@pytest.mark.parametrize(
    ("shape", "scores", "loss", "crossed", "columns", "suffix"),
    [
        (*training, suffix)
        for i, training in enumerate(TRAININGS)
        for n, suffix in enumerate((".parquet", ".jsonl"))
        if THOROUGH or n == i % 2
    ],
)
def test_trainers_take_every_shape(
    corpus, model, ranker, tmp_path, monkeypatch, shape, scores, loss, crossed, columns, suffix
):
    options = {"shape": shape, "scores": scores, "negatives": 2}
    path = exported(corpus, tmp_path / f"out{suffix}", format="sentence-transformers", **options)
    dataset = loaded(path)
    label = {"labeled-pair": "score" if scores else "label", "labeled-list": "scores"}
    last = label.get(shape, "scores") if scores or shape == "labeled-pair" else "labels"
    named = [*columns, last] if scores or shape.startswith("labeled") else columns
    assert dataset.column_names == named
    seen, labels = trained(ranker if crossed else model, dataset, loss, tmp_path, monkeypatch)
    rows = dataset.to_list()
    assert len(seen) >= 2 * BATCH
    assert all({n: v for n, v in row.items() if n in named} in rows for row in seen)
    if not crossed and named[-1] == last:
        flat = [row[last] for row in seen]
        assert (
            labels == pytest.approx(flat) if shape == "labeled-pair" else len(labels) == len(flat)
        )


# ---- BEIR


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # its loader does that
def test_the_loader_of_beir_reads_what_is_in_the_tables(corpus, tmp_path):
    loader = pytest.importorskip("beir.datasets.data_loader")
    folder = exported(corpus, tmp_path / "set", format="beir", split="train")
    documents, queries, relevant = loader.GenericDataLoader(str(folder)).load(split="train")
    anchors = [a for a in expected(corpus) if a.positives]
    assert queries == {a.id: a.text for a in anchors}
    assert relevant == {a.id: {id_: 1 for id_, _ in a.positives} for a in anchors}
    for a in anchors:
        for id_, text in a.positives:
            assert documents[id_] == {"title": "", "text": text}


# ---- Tevatron


def test_ids_of_tevatron_are_found_in_its_corpus_as_datasets(corpus, tmp_path):
    folder = exported(corpus, tmp_path / "out", format="tevatron")
    rows, documents = (loaded(folder / f"{name}.jsonl") for name in ("train", "corpus"))
    places = {docid: i for i, docid in enumerate(documents["docid"])}
    anchors, _ = kept(expected(corpus))
    for row, a in zip(rows, anchors, strict=True):
        ids = row["positive_document_ids"] + row["negative_document_ids"]
        texts = [documents[places[docid]]["text"] for docid in ids]
        assert texts == [text for _, text in a.positives + a.negatives]
        assert (row["query_id"], row["query_text"]) == (a.id, a.text)
