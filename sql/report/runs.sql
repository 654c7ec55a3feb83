-- name: served
-- What every run had taken of each source when it was saved last.
-- Rows: by run and source.
SELECT
    latest.run, latest.tag, latest.step, latest.position, latest.saved_at,
    entry.key AS source, entry.value[1] AS samples, entry.value[2] AS tokens,
    coalesce(entry.value[3], 0) AS fallbacks
FROM (
    SELECT
        run, tag, step, position, saved_at,
        from_json(json_object('a', counts), '{"a": "MAP(VARCHAR, BIGINT[])"}').a AS counts
    FROM cursors
    QUALIFY row_number() OVER (PARTITION BY run ORDER BY step DESC, tag NULLS FIRST) = 1
) AS latest, unnest(map_entries(latest.counts)) AS entries (entry)
ORDER BY latest.run, source

-- name: cursors
-- Where every run was saved.
-- Rows: by run and step.
SELECT
    cursors.run, cursors.tag, runs.kind, runs.corpus_version AS version, cursors.step,
    cursors.position, cursors.epoch, cursors.saved_at
FROM cursors
JOIN runs ON runs.run = cursors.run
ORDER BY cursors.run, cursors.step, cursors.tag

-- name: losses
-- The losses of each source that a run has told of, the mean of so many steps.
-- Parameters: $run, $apart (steps).
-- Rows: by source and step.
SELECT
    source, min(step) AS from_step, max(step) AS to_step, count(*) AS reports, avg(loss) AS loss
FROM losses
WHERE run = $run
GROUP BY source, step // $apart
ORDER BY source, from_step

-- name: last_loss
-- The last step that a run has told a loss of.
-- Parameters: $run.
SELECT max(step) AS step
FROM losses
WHERE run = $run

-- name: tables
-- The tables of a state file.
-- Rows: by name.
SELECT table_name
FROM duckdb_tables()
ORDER BY table_name
