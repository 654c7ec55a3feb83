import duckplets as dp

with dp.Corpus("mixed.duckdb") as corpus:
    run = corpus.sampler(
        batch_size=8, batch_by="source", mixture={"faq": 0.5, "manual": 0.5}, steps=40
    )
    found = [set(batch["source"]) for batch in run]
