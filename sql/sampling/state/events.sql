-- The weights set during a run.
-- Parameters: $run.
-- Rows: by step.
SELECT step, weights
FROM weight_events
WHERE run = $run
ORDER BY step
