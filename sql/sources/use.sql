-- The attached file's tables, by their plain names, for this connection.
-- The name is put in its place by duckplets/sources/sql_query.py.
-- Rows: none.
USE attached
