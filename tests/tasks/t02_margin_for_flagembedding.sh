duckplets mine mixed.duckdb
duckplets export mixed.duckdb train.jsonl --format flagembedding --negatives 8 --relative-margin 0.05
