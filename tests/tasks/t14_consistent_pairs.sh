duckplets mine mixed.duckdb
duckplets show mixed.duckdb --negatives
duckplets sample mixed.duckdb --consistent bm25=20 --batch-size 4 --steps 1 --out kept.jsonl
