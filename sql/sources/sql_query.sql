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
