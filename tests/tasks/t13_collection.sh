duckplets ingest scifact.duckdb scifact/
duckplets mine scifact.duckdb --split train
duckplets sample scifact.duckdb --batch-size 4 --steps 1 --out batch.jsonl
