cat > sources.toml <<'END'
version = 1
[[source]]
path = "faq.csv"
columns = { anchor = "question", positive = "answer" }
[[source]]
path = "manual.jsonl"
columns = { anchor = "title", positive = "body" }
END
duckplets ingest both.duckdb sources.toml
