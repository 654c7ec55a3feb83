-- name: cursor
-- One cursor of a run: a checkpoint, or with no tag the latest save.
-- Parameters: $run, $tag.
SELECT position, step, epoch, counts
FROM cursors
WHERE run = $run AND tag IS NOT DISTINCT FROM $tag

-- name: delete_cursors
-- Forget the cursors of a run beyond a step; returns their number.
-- Parameters: $run, $step.
DELETE FROM cursors
WHERE run = $run AND step > $step

-- name: delete_events
-- Forget the weights set during a run from a step on.
-- Parameters: $run, $step.
DELETE FROM weight_events
WHERE run = $run AND step >= $step

-- name: delete_run
-- Forget a run.
-- Parameters: $run.
DELETE FROM runs
WHERE run = $run

-- name: cursors_of_runs
-- Every cursor with what is known of its run: last the versions that joined it, and their steps.
-- Settings that are damaged tell of none: opening the run says what is wrong.
-- Rows: by run, the latest save first, then by time.
SELECT
    cursors.run, cursors.tag, runs.kind, runs.corpus_version,
    cursors.position, cursors.step, cursors.epoch, cursors.saved_at,
    CASE
        WHEN json_valid(runs.settings)
        THEN coalesce(TRY_CAST(runs.settings ->> '$.eras[*].corpus_version' AS BIGINT[]), [])
        ELSE []
    END AS versions,
    CASE
        WHEN json_valid(runs.settings)
        THEN coalesce(TRY_CAST(runs.settings ->> '$.eras[*].step' AS BIGINT[]), [])
        ELSE []
    END AS steps
FROM cursors
JOIN runs ON runs.run = cursors.run
ORDER BY cursors.run, cursors.tag IS NOT NULL, cursors.saved_at, cursors.tag

-- name: run
-- One run.
-- Parameters: $run.
SELECT kind, corpus_version, order_version, settings, fingerprint
FROM runs
WHERE run = $run

-- name: events
-- The weights set during a run.
-- Parameters: $run.
-- Rows: by step.
SELECT step, weights, temperature
FROM weight_events
WHERE run = $run
ORDER BY step

-- name: update_run
-- Note what a run is opened with from now on.
-- Parameters: $run, $settings, $fingerprint (JSON).
UPDATE runs
SET settings = $settings, fingerprint = $fingerprint
WHERE run = $run

-- name: add_run
-- Note a new run.
-- Parameters: $run, $kind, $corpus_version, $order_version, $settings, $fingerprint (JSON).
INSERT INTO runs
VALUES (
    $run, $kind, $corpus_version, $order_version, $settings, $fingerprint, now()::TIMESTAMP
)

-- name: latest_tag
-- The checkpoint of a run that is farthest, if it lies beyond a step.
-- Parameters: $run, $step.
SELECT tag, step
FROM cursors
WHERE run = $run AND tag IS NOT NULL AND step > $step
ORDER BY step DESC, tag
LIMIT 1

-- name: add_event
-- Note the source weights of a run from a step on.
-- Parameters: $run, $step, $weights (JSON), $temperature (or NULL).
INSERT INTO weight_events
VALUES ($run, $step, $weights, now()::TIMESTAMP, $temperature)

-- name: delete_latest
-- Forget the latest save of a run, for another to take its place; returns its step.
-- Parameters: $run.
DELETE FROM cursors
WHERE run = $run AND tag IS NULL
RETURNING step

-- name: add_cursor
-- Note where a run stands.
-- Parameters: $run, $tag, $position, $step, $epoch, $counts (JSON).
INSERT INTO cursors (run, tag, position, step, epoch, saved_at, counts)
VALUES ($run, $tag, $position, $step, $epoch, now()::TIMESTAMP, $counts)

-- name: losses
-- The losses that were reported for the first steps of a run.
-- Parameters: $run, $stop.
-- Rows: by step and source.
SELECT step, source, loss
FROM losses
WHERE run = $run AND step < $stop
ORDER BY step, source

-- name: delete_losses
-- Forget the losses of some steps of a run, which it has gone through anew.
-- Parameters: $run, $first, $stop.
DELETE FROM losses
WHERE run = $run AND step >= $first AND step < $stop

-- name: delete_losses_beyond
-- Forget the losses of a run beyond all its cursors; the last one's step may have a short batch.
-- Parameters: $run.
DELETE FROM losses
WHERE run = $run AND step > (SELECT coalesce(max(step), -1) FROM cursors WHERE run = $run)

-- name: add_losses
-- Note the losses of some steps of a run (Arrow told: step, source, loss).
-- Parameters: $run.
-- Rows: by step and source.
INSERT INTO losses
SELECT $run, step, source, loss
FROM told
ORDER BY step, source
