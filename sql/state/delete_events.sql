-- Forget the weights of a run.
-- Parameters: $run.
DELETE FROM weight_events
WHERE run = $run
