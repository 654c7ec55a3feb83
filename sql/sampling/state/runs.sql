-- Names of the runs.
-- Rows: by name.
SELECT run
FROM runs
ORDER BY run
