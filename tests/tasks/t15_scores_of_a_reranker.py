import duckplets as dp


def overlap(pairs):  # your cross-encoder's predict
    return [len({*anchor.split()} & {*text.split()}) for anchor, text in pairs]


with dp.Corpus("mixed.duckdb") as corpus:
    corpus.mine()
    corpus.rescore(overlap, "reranked")
    scores = dp.Negatives(4, by="reranked")
    columns = ["anchor", "positive", "positive_score", "negative_1", "negative_1_score"]
    found = corpus.sampler(negatives=scores, columns=columns).batch_at(0).to_pylist()
