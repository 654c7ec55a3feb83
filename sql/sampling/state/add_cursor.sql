-- Note where a run stands.
-- Parameters: $run, $tag, $position, $step, $epoch, $counts (JSON).
INSERT INTO cursors (run, tag, position, step, epoch, saved_at, counts)
VALUES ($run, $tag, $position, $step, $epoch, now()::TIMESTAMP, $counts)
