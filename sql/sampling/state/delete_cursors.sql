-- Forget all cursors of a run; returns their number.
-- Parameters: $run.
DELETE FROM cursors
WHERE run = $run
