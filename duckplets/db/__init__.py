"""DuckDB: connections, named statements, migrations and the fts extension; nothing else imports duckdb."""
