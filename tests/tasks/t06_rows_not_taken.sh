duckplets ingest odd.duckdb odd.csv --anchor question --positive answer --on-error quarantine
duckplets sql odd.duckdb 'SELECT file, line, reason, document FROM quarantine'
