import duckplets as dp

with dp.Corpus("mixed.duckdb") as corpus:
    corpus.mine()
    apart = dp.Negatives(by="bm25", in_batch_margin=0.05)
    run = corpus.sampler(batch_size=8, no_duplicates=True, negatives=apart, steps=20)
    found = [batch.to_pylist() for batch in run]
