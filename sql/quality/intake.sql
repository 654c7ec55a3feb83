-- name: last
-- The last whole intake through gates of a source in the newest version.
-- Parameters: $name, $unpublished.
-- Rows: one, or none.
SELECT
    acquisitions.source_id, acquisitions.kind, acquisitions.uri, acquisitions.quality,
    acquisitions.condition, acquisitions.last_row, acquisitions.rows_digest, acquisitions.cursor
FROM acquisitions
JOIN sources ON sources.source_id = acquisitions.source_id
WHERE
    sources.name = $name
    AND sources.removed_version IS NULL
    AND acquisitions.version <> $unpublished
ORDER BY acquisitions.acquisition_id DESC
LIMIT 1

-- name: totals
-- The records and bytes of a source that gates have accepted so far, published or not.
-- Parameters: $name, $unpublished.
SELECT
    coalesce(sum(acquisitions.accepted), 0)::BIGINT AS accepted,
    coalesce(sum(acquisitions.accepted_bytes), 0)::BIGINT AS accepted_bytes
FROM acquisitions
JOIN sources ON sources.source_id = acquisitions.source_id
WHERE
    sources.name = $name
    AND (sources.removed_version IS NULL OR sources.removed_version = $unpublished)

-- name: begin
-- Store the start of an intake; returns its number.
-- Parameters: $source_id, $source, $kind, $uri, $quality (JSON), $fingerprint, $condition,
-- $size_mb, $row_limit, $first_record_key, $last_row, $rows_digest, $cursor (JSON), $version,
-- $duckplets.
INSERT INTO acquisitions
SELECT
    coalesce(max(acquisition_id), 0) + 1, $source_id, $source, $kind, $uri, $quality, $fingerprint,
    $condition, $size_mb, $row_limit, now()::TIMESTAMP, NULL, 0, 0, 0, 0, 0, 0, $first_record_key,
    $last_row, $rows_digest, $cursor, $version, $duckplets
FROM acquisitions
RETURNING acquisition_id

-- name: unfinished
-- The unfinished intake of a source.
-- Parameters: $source_id, $unpublished.
SELECT
    acquisition_id, "read", accepted, filtered, rejected, unreadable, accepted_bytes, last_row,
    rows_digest
FROM acquisitions
WHERE source_id = $source_id AND version = $unpublished

-- name: save
-- Store the position of an intake.
-- Parameters: $acquisition_id, $read, $accepted, $filtered, $rejected, $unreadable,
-- $accepted_bytes, $last_row, $rows_digest, $cursor (JSON), $size_mb, $row_limit.
UPDATE acquisitions
SET
    "read" = $read,
    accepted = $accepted,
    filtered = $filtered,
    rejected = $rejected,
    unreadable = $unreadable,
    accepted_bytes = $accepted_bytes,
    last_row = $last_row,
    rows_digest = $rows_digest,
    cursor = $cursor,
    size_mb = $size_mb,
    row_limit = $row_limit
WHERE acquisition_id = $acquisition_id

-- name: finish
-- Mark an intake as whole.
-- Parameters: $acquisition_id, $version.
UPDATE acquisitions
SET version = $version, ended_at = now()::TIMESTAMP
WHERE acquisition_id = $acquisition_id

-- name: forget
-- Delete the decisions on the rows of a removed source, before another source gets its name.
-- Parameters: $name, $source_id.
DELETE FROM judgements
WHERE source = $name AND source_id <> $source_id

-- name: forget_rejected
-- Delete the rejected rows of a removed source, too.
-- Parameters: $name, $source_id.
DELETE FROM rejected_rows
WHERE source_id IN (SELECT source_id FROM sources WHERE name = $name) AND source_id <> $source_id

-- name: unhashed
-- The records of the newest version whose texts have no hash yet.
-- Rows: by record_key.
SELECT record_key
FROM records
WHERE
    removed_version IS NULL
    AND record_key NOT IN (SELECT record_key FROM record_hashes)
ORDER BY record_key

-- name: known_ids
-- The ids of rows (Arrow incoming: record_id) that records already have.
-- Parameters: $unpublished (marks records of the same intake, or NULL).
SELECT record_id, arg_max(content_hash, record_key) AS content_hash
FROM records
WHERE
    (removed_version IS NULL OR removed_version = $unpublished)
    AND record_id IN (SELECT record_id FROM incoming)
GROUP BY record_id

-- name: starts
-- The beginnings of the hashes of texts.
SELECT start
FROM record_hashes

-- name: known_digests
-- The texts (Arrow incoming: digest, start) that records already have. Few texts are known, so
-- hashes are searched first, and then removed records are excluded.
-- Parameters: $unpublished, $source_id: of the intake, or NULL.
WITH found AS MATERIALIZED (
    SELECT record_key, digest
    FROM record_hashes
    WHERE start IN (SELECT start FROM incoming) AND digest IN (SELECT digest FROM incoming)
)

SELECT DISTINCT digest
FROM found
WHERE record_key NOT IN (
    SELECT record_key
    FROM records
    WHERE
        removed_version IS NOT NULL
        AND NOT coalesce(removed_version = $unpublished AND source_id = $source_id, FALSE)
        AND record_key IN (SELECT record_key FROM found)
)

-- name: append_hashes
-- Append new_hashes (Arrow: record_key, digest).
INSERT INTO record_hashes
SELECT record_key, digest, ('0x' || left(hex(digest), 16))::UBIGINT
FROM new_hashes

-- name: append_judgements
-- Append judged (Arrow), the rows of an intake.
-- Parameters: $acquisition_id, $source_id, $source.
INSERT INTO judgements
SELECT
    (SELECT coalesce(max(judgement_key), 0) FROM judgements) + row_number() OVER (ORDER BY "row"),
    $acquisition_id, $source_id, $source, file, "row", line, record_id, record_key, outcome, gate,
    rule, digest, bytes, measured, metrics
FROM judged

-- name: append_rejected
-- Append rejected (Arrow), rows with all fields of a record.
-- Parameters: $acquisition_id, $source_id.
INSERT INTO rejected_rows
SELECT
    $acquisition_id, $source_id, "row", record_id, content_hash, sections, date, group_key,
    taxonomy, meta, trust, created_at, updated_at, messages, rejected_messages, prefix, label
FROM rejected

-- name: came_meanwhile
-- Mark the unpublished records as removed whose texts another source has stored since the start.
-- Parameters: $source_id, $version, $acquisition_id.
-- Rows: one for each record, its key.
UPDATE records
SET removed_version = $version
WHERE
    source_id = $source_id
    AND added_version = $version
    AND removed_version IS NULL
    AND record_key IN (
        SELECT own.record_key
        FROM judgements
        JOIN record_hashes AS own ON own.record_key = judgements.record_key
        JOIN record_hashes AS other ON other.digest = own.digest
        JOIN records AS others ON others.record_key = other.record_key
        WHERE
            judgements.acquisition_id = $acquisition_id
            AND others.removed_version IS NULL
            AND others.source_id <> $source_id
    )
RETURNING record_key

-- name: reject_keys
-- Mark the rows of records (Arrow taken: record_key) as rejected.
-- Parameters: $gate, $rule.
UPDATE judgements
SET outcome = 'rejected', gate = $gate, rule = $rule, record_key = NULL
WHERE record_key IN (SELECT record_key FROM taken)

-- name: measured
-- Store the settings of a measurement, if they are new.
-- Parameters: $measured, $keys (JSON).
INSERT INTO measurings
SELECT $measured, $keys
WHERE $measured NOT IN (SELECT measured FROM measurings)

-- name: measurings
-- The settings of all measurements.
SELECT measured, keys
FROM measurings
