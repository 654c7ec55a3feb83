from collections import Counter

import duckplets as dp

anneal = dp.Anneal(50, {"faq": 0.2, "manual": 0.8}, end_step=100)
with dp.Corpus("mixed.duckdb") as corpus:
    run = corpus.sampler(mixture=dp.Mixture({"faq": 0.7, "manual": 0.3}, anneal=anneal), steps=150)
    print(run.forecast(150))
    found = [Counter(batch["source"]) for batch in run]
