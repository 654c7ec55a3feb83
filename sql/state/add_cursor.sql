-- Note where a run stands.
-- Parameters: $run, $tag, $position, $step, $epoch.
INSERT INTO cursors
VALUES ($run, $tag, $position, $step, $epoch, now()::TIMESTAMP)
