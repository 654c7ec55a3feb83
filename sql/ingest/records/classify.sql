-- Compare incoming rows (row, record_id, content_hash) with each other and with the live records.
-- Verdicts: add; same, if the content is known; conflict, if the id has other content; overtaken, if
-- a later row wins.
-- Parameters: $last_wins, $unpublished (marks records of the same ingest, not yet seen), $anew
-- (whether live records are passed over).
-- Rows: in the order of row.
WITH stored AS (
    SELECT
        records.record_id,
        arg_max(records.content_hash, records.record_key) AS content_hash
    FROM records
    WHERE
        (records.removed_version = $unpublished OR (records.removed_version IS NULL AND NOT $anew))
        AND records.record_id IN (SELECT record_id FROM incoming)
    GROUP BY records.record_id
),
compared AS (
    SELECT
        incoming.row,
        incoming.content_hash,
        stored.content_hash AS stored_hash,
        row_number() OVER earlier AS nth,
        count(*) OVER whole AS copies,
        first_value(incoming.content_hash) OVER whole AS first_hash,
        last_value(incoming.content_hash) OVER whole AS last_hash
    FROM incoming
    LEFT JOIN stored USING (record_id)
    WINDOW
        earlier AS (PARTITION BY incoming.record_id ORDER BY incoming.row),
        whole AS (
            PARTITION BY incoming.record_id ORDER BY incoming.row
            ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING
        )
)
SELECT
    CASE
        WHEN $last_wins AND content_hash <> last_hash THEN 'overtaken'
        WHEN $last_wins AND stored_hash = last_hash THEN 'same'
        WHEN $last_wins AND nth < copies THEN 'same'
        WHEN $last_wins THEN 'add'
        WHEN content_hash <> coalesce(stored_hash, first_hash) THEN 'conflict'
        WHEN stored_hash IS NOT NULL OR nth > 1 THEN 'same'
        ELSE 'add'
    END AS verdict
FROM compared
ORDER BY row
