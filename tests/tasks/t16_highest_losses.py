import duckplets as dp

with dp.Corpus("mixed.duckdb") as corpus:
    run = corpus.sampler(batch_size=8, run="losses")
    for batch in (next(run) for _ in range(10)):
        run.report_loss(per_sample=[len(text) for text in batch["anchor"]])
    found = run.worst(5).to_pylist()
    run.skip(50)
    run.save()
