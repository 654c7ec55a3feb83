-- Every cursor with what is known of its run.
-- Rows: by run, the latest save first, then by time.
SELECT
    cursors.run, cursors.tag, runs.kind, runs.corpus_version,
    cursors.position, cursors.step, cursors.epoch, cursors.saved_at
FROM cursors
JOIN runs ON runs.run = cursors.run
ORDER BY cursors.run, cursors.tag IS NOT NULL, cursors.saved_at, cursors.tag
