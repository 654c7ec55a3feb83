-- name: served
-- What every run had taken of each source when it was saved last; tokens and fallbacks are of the
-- samples before the position up to which they were counted.
-- Rows: by run and source.
SELECT
    latest.run, latest.tag, latest.step, latest.position, latest.saved_at,
    entry.key AS source, entry.value AS samples, latest.counted_to,
    coalesce(latest.counts[entry.key][1], 0) AS tokens,
    coalesce(latest.counts[entry.key][2], 0) AS fallbacks
FROM (
    SELECT
        run, tag, step, position, saved_at, counted_to,
        from_json(json_object('a', samples), '{"a": "MAP(VARCHAR, BIGINT)"}').a AS samples,
        from_json(json_object('a', counts), '{"a": "MAP(VARCHAR, BIGINT[])"}').a AS counts
    FROM cursors
    QUALIFY row_number() OVER (PARTITION BY run ORDER BY step DESC, tag NULLS FIRST) = 1
) AS latest, unnest(map_entries(latest.samples)) AS entries (entry)
ORDER BY latest.run, source

-- name: cursors
-- Where every run was saved.
-- Rows: by run and step.
SELECT
    run, tag, kind, corpus_version AS version, step, position, epoch, saved_at
FROM saves
ORDER BY run, step, tag

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
