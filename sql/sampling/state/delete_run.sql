-- Forget a run.
-- Parameters: $run.
DELETE FROM runs
WHERE run = $run
