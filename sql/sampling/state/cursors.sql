-- Every cursor.
-- Rows: by run, the latest save first, then by tag.
SELECT run, tag
FROM cursors
ORDER BY run, tag NULLS FIRST
