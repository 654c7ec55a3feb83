-- The rows of a user's statement; DuckDB's query() takes exactly one SELECT.
-- Parameters: $query.
-- Rows: in the statement's order.
SELECT * FROM query($query)
