import duckplets as dp

with dp.Corpus("mixed.duckdb") as corpus:
    corpus.sampler(batch_size=8, run="long").save()
    corpus.ingest("more.csv", name="faq", anchor="question", positive="answer")
with dp.resume("mixed.duckdb", "long", version="newest") as run:
    print(run.describe())
    found = {text for step in range(40) for text in run.batch_at(step)["anchor"]}
