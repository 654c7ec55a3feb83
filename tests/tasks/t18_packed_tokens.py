from itertools import islice

import duckplets as dp

with dp.Corpus("mixed.duckdb", read_only=True) as corpus:
    weights = {"faq": 0.7, "manual": 0.3}
    rows = corpus.token_sampler(
        "tokenizer.json", seq_length=64, pack=True, mixture=weights, eos=None
    )
    found = [batch["input_ids"] for batch in islice(rows, 3)]
