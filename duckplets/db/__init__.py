"""DuckDB, which nothing else imports: connections, named statements, migrations, extension."""
