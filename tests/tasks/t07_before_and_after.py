import duckplets as dp

with dp.Corpus("mixed.duckdb") as corpus:
    for name, model in (("before", before), ("after", after)):
        corpus.evaluator("test", source="faq", results=f"{name}.json")(model)
    print(dp.compare("before.json", "after.json"))
