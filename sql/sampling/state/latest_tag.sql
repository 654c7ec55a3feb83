-- The checkpoint of a run that is farthest, if it lies beyond a step.
-- Parameters: $run, $step.
SELECT tag, step
FROM cursors
WHERE run = $run AND tag IS NOT NULL AND step > $step
ORDER BY step DESC, tag
LIMIT 1
