"""The only room that imports DuckDB: connections, named statements, migrations, extensions."""
