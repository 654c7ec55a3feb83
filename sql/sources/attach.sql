-- Another DuckDB file, to read only.
-- ATTACH takes no parameters: the path and the name are put in their places as a literal and a
-- quoted identifier by duckplets/sources/sql_query.py.
-- Rows: none.
ATTACH 'path' AS attached (READ_ONLY)
