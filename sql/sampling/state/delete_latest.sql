-- Forget the latest save of a run, for another to take its place.
-- Parameters: $run.
DELETE FROM cursors
WHERE run = $run AND tag IS NULL
