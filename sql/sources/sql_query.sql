-- name: columns
-- The columns of a user's statement with DuckDB's names of their types; it is not run.
-- Parameters: $query.
-- Rows: in the order of the columns.
DESCRIBE SELECT * FROM query($query)

-- name: query
-- The rows of a user's statement; DuckDB's query() takes exactly one SELECT.
-- Parameters: $query.
-- Rows: in the statement's order.
SELECT * FROM query($query)

-- name: home
-- Back to the reader's own database, so that an attached one can go.
-- Rows: none.
USE memory

-- name: detach
-- Done with the attached file.
-- The name is put in its place by duckplets/sources/sql_query.py.
-- Rows: none.
DETACH attached

-- name: attach
-- Another DuckDB file, to read only.
-- ATTACH takes no parameters: the path and the name are put in their places as a literal and a
-- quoted identifier by duckplets/sources/sql_query.py.
-- Rows: none.
ATTACH 'path' AS attached (READ_ONLY)

-- name: use
-- The attached file's tables, by their plain names, for this connection.
-- The name is put in its place by duckplets/sources/sql_query.py.
-- Rows: none.
USE attached
