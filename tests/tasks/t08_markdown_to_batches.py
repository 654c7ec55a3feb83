import duckplets as dp

with dp.Corpus("notes.duckdb") as corpus:
    corpus.ingest("notes", pattern="*.md", by_heading=True)
    corpus.split(1, 0, 0)
    found = corpus.sampler("pairs", batch_size=4, steps=1).batch_at(0).to_pylist()
