-- Forget the weights set during a run from a step on.
-- Parameters: $run, $step.
DELETE FROM weight_events
WHERE run = $run AND step >= $step
