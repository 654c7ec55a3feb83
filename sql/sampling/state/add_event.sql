-- Note the source weights of a run from a step on.
-- Parameters: $run, $step, $weights (JSON).
INSERT INTO weight_events
VALUES ($run, $step, $weights, now()::TIMESTAMP)
