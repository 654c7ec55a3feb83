"""DuckDB: connections, named statements, migrations, fts; nothing else imports duckdb."""
