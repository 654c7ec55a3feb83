-- name: last
-- The last save of a run, which opens it.
-- Parameters: $run.
SELECT tag, kind, corpus_version, order_version, position, step, epoch, joins, state
FROM saves
WHERE run = $run
ORDER BY number DESC
LIMIT 1

-- name: save
-- One save of a run: a checkpoint, or the latest if there is no tag.
-- Parameters: $run, $tag.
SELECT tag, kind, corpus_version, order_version, position, step, epoch, joins, state
FROM saves
WHERE run = $run AND tag IS NOT DISTINCT FROM $tag

-- name: saves
-- Every save, or the saves of one run. The last column has the steps and versions that joined it.
-- Parameters: $run (or NULL).
-- Rows: by run, the latest save first, then by time.
SELECT run, tag, kind, corpus_version, position, step, epoch, saved_at, joins
FROM saves
WHERE $run IS NULL OR run = $run
ORDER BY run, tag IS NOT NULL, saved_at, tag

-- name: delete_beyond
-- Forget the saves of a run beyond a step; returns their number.
-- Parameters: $run, $step.
DELETE FROM saves
WHERE run = $run AND step > $step

-- name: delete_latest
-- Forget the latest save of a run, before another replaces it.
-- Parameters: $run.
DELETE FROM saves
WHERE run = $run AND tag IS NULL

-- name: add
-- Store the position of a run, and the state that opens it.
-- Parameters: $run, $tag, $kind, $corpus_version, $order_version, $position, $step, $epoch, $joins,
-- $state (JSON).
INSERT INTO saves
SELECT
    coalesce(max(number), 0) + 1,
    $run, $tag, $kind, $corpus_version, $order_version, $position, $step, $epoch,
    now()::TIMESTAMP, $joins::BIGINT[][], $state
FROM saves

-- name: losses
-- The losses that were reported for the first steps of a run.
-- Parameters: $run, $stop.
-- Rows: by step and source.
SELECT step, source, loss
FROM losses
WHERE run = $run AND step < $stop
ORDER BY step, source

-- name: delete_losses
-- Forget the losses of some steps, which a run has repeated.
-- Parameters: $run, $first, $stop.
DELETE FROM losses
WHERE run = $run AND step >= $first AND step < $stop

-- name: delete_losses_beyond
-- Forget the losses of a run beyond all its saves; the step of the last save may have a short batch.
-- Parameters: $run.
DELETE FROM losses
WHERE run = $run AND step > (SELECT coalesce(max(step), -1) FROM saves WHERE run = $run)

-- name: add_losses
-- Store the losses of some steps of a run (Arrow reported: step, source, loss).
-- Parameters: $run.
-- Rows: by step and source.
INSERT INTO losses
SELECT $run, step, source, loss
FROM reported
ORDER BY step, source

-- name: delete_shares
-- Forget the shares of a run from a step on.
-- Parameters: $run, $first.
DELETE FROM source_shares
WHERE run = $run AND start_step >= $first

-- name: add_shares
-- Store shares of the sources of a run (Arrow reported: start_step, source, share).
-- Parameters: $run.
INSERT INTO source_shares
SELECT $run, start_step, source, share
FROM reported

-- name: sample_losses
-- The highest losses of samples that were reported for the first steps of a run.
-- Parameters: $run, $stop, $most (rows).
-- Rows: the highest first; equal ones by position.
SELECT step, position, loss
FROM sample_losses
WHERE run = $run AND step < $stop
ORDER BY loss DESC, position
LIMIT $most

-- name: delete_sample_losses
-- Forget the losses of samples of some steps, which a run has repeated, and of steps beyond all its
-- saves.
-- Parameters: $run, $first, $stop.
DELETE FROM sample_losses
WHERE
    run = $run
    AND (
        (step >= $first AND step < $stop)
        OR step > (SELECT coalesce(max(step), -1) FROM saves WHERE run = $run)
    )

-- name: add_sample_losses
-- Store losses of samples of a run (Arrow reported: step, position, loss).
-- Parameters: $run.
INSERT INTO sample_losses
SELECT $run, step, position, loss
FROM reported
