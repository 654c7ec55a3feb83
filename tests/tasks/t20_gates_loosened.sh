duckplets ingest gated.duckdb faq.csv --anchor question --positive answer --quality strict.toml
duckplets quality gated.duckdb
duckplets quality gated.duckdb --apply loose.toml
