-- Done with the attached file.
-- The name is put in its place by duckplets/sources/sql_query.py.
-- Rows: none.
DETACH attached
