duckplets forecast mixed.duckdb --mixture faq=0.7,manual=0.3 --epochs 2 --write run.toml
duckplets forecast mixed.duckdb --config run.toml --against equal
