-- One cursor of a run: a checkpoint, or with no tag the latest save.
-- Parameters: $run, $tag.
SELECT position, step, epoch, counts
FROM cursors
WHERE run = $run AND tag IS NOT DISTINCT FROM $tag
