-- The columns of a user's statement, without running it.
-- Parameters: $query.
-- Rows: none.
SELECT * FROM query($query) LIMIT 0
