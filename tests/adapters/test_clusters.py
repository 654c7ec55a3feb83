"""Keys of batches from vectors: near texts share them."""

import numpy as np
import pytest

import duckplets as dp

pytest.importorskip("sklearn")


def test_near_texts_share_batches_and_near_clusters_mixed_ones(tmp_path):
    draw = np.random.default_rng(0)
    rows = [{"id": str(n), "q": f"asks {n}", "a": f"answers {n}"} for n in range(400)]
    angles = {str(n): 0.5 * (n % 8) + draw.normal(0, 0.02) for n in range(400)}
    with dp.Corpus(tmp_path / "c.duckdb") as corpus:
        corpus.ingest(dp.MemorySource(rows, id="id", anchor="q", positive="a"), name="s")
        corpus.split(1, 0, 0)
        vectors = [[np.cos(angles[row["id"]]), np.sin(angles[row["id"]])] for row in rows]
        texts = {"text": [row["q"] for row in rows], "vector": np.array(vectors, np.float32)}
        corpus.add_vectors("v", texts)
        with pytest.raises(dp.VectorError, match="no text of this split"):
            corpus.cluster("v", size=50, fit_on="test")
        report = corpus.cluster("v", size=50, seed=1)
        assert (report.name, report.of, report.read, report.keys) == ("v", "texts", 400, 8)
        again = corpus.cluster("v", size=50, seed=1, name="again")
        assert again.keys == 8
        sampler = corpus.sampler(batch_size=10, batch_by="v", epochs=1)
        ids = [
            record.split("/")[1]
            for record in sampler.served(0, 400)["anchor_record_id"].to_pylist()
        ]
        spreads = [np.ptp([angles[key] for key in ids[at : at + 10]]) for at in range(0, 400, 10)]
        assert sorted(ids) == sorted(angles)
        assert np.mean(np.array(spreads) < 0.3) > 0.8
        order = [angles[key] for key in _in_order(corpus)]
        assert np.abs(np.diff(order)).max() < 0.75  # from a cluster to its neighbour
    with (
        dp.Corpus(tmp_path / "c.duckdb", read_only=True) as corpus,
        pytest.raises(dp.ReadOnlyError, match="cannot cluster the vectors of"),
    ):
        corpus.cluster("v", size=50)


def _in_order(corpus):
    """Return a record of each cluster, in the order of clusters."""
    rows = corpus.sql(
        "SELECT number, any_value(records.record_id) AS id FROM batch_keys AS keys JOIN chunks "
        "ON chunks.text_hash = keys.text_hash JOIN records ON records.record_key = "
        "chunks.record_key WHERE name = 'v' GROUP BY number ORDER BY number"
    )
    return [record.split("/")[1] for record in rows["id"].to_pylist()]
