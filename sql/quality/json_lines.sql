-- name: lines
-- Accepted rows of an intake as JSON, each with the line break after it. Shares are made as where
-- it is decided. What some readers take for the end of a line (U+0085, U+2028, U+2029) is escaped,
-- where there is any: to look for it takes a seventh of the time of replacing it.
-- Parameters: $acquisition_id, $low, $high (keys, both included).
-- Rows: by record_key.
WITH texts AS (
    SELECT record_key, string_agg(text, E'\n\n' ORDER BY position) AS text
    FROM sections
    WHERE record_key BETWEEN $low AND $high AND role <> 'rejected'
    GROUP BY record_key
),

settings AS (
    SELECT
        quality ->> 'preset' AS domain,
        coalesce((quality -> 'pii_kinds')::VARCHAR[], []) AS kinds
    FROM acquisitions
    WHERE acquisition_id = $acquisition_id
),

rows AS (
    SELECT judgements.*, unnest(judgements.metrics)
    FROM judgements
    WHERE acquisition_id = $acquisition_id AND record_key BETWEEN $low AND $high
),

objects AS (
    SELECT
        rows.record_key,
        to_json({
            'text': texts.text,
            'meta': {
                'source': rows.source,
                'record_id': rows.record_id,
                'file': rows.file,
                'row': rows.row,
                'domain': settings.domain,
                'sha256': lower(hex(rows.digest)),
                'bytes': rows.bytes,
                'characters': rows.characters,
                'words': rows.words,
                'lines': rows.lines,
                'license': rows.license,
                'pii_density': round((
                    rows.emails * list_contains(settings.kinds, 'email')::INT
                    + rows.phones * list_contains(settings.kinds, 'phone')::INT
                    + rows.ssns * list_contains(settings.kinds, 'ssn')::INT
                    + rows.addresses * list_contains(settings.kinds, 'ipv4')::INT
                    + rows.cards * list_contains(settings.kinds, 'card')::INT
                ) / rows.words, 6),
                'profanity_density': round(rows.profanity / rows.words, 6),
                'copyright': rows.copyright,
                'language': rows.language,
                'language_probability': rows.language_probability,
                'domain_terms': rows.domain_terms,
                'domain_density': round(rows.domain_terms / rows.words, 6),
                'domain_categories': rows.domain_categories,
                'code_score': round(CASE WHEN rows.code_lines < 3 THEN 0 ELSE (
                    45 * rows.code_indented / rows.code_lines
                    + 30 * coalesce(rows.code_symbols / rows.code_characters, 0)
                    + 25 * coalesce(rows.code_keywords / rows.code_words, 0)
                ) / 100 END, 6),
                'own': rows.own
            }
        })::VARCHAR AS object
    FROM rows
    JOIN texts ON texts.record_key = rows.record_key
    CROSS JOIN settings
)

SELECT
    CASE
        WHEN
            contains(object, chr(133)) OR contains(object, chr(8232)) OR contains(object, chr(8233))
            THEN replace(
                replace(replace(object, chr(133), '\u0085'), chr(8232), '\u2028'),
                chr(8233), '\u2029'
            )
        ELSE object
    END || chr(10) AS line
FROM objects
ORDER BY record_key

-- name: sizes
-- The accepted rows of an intake from a key on, with the sizes of their texts.
-- Parameters: $acquisition_id, $low, $high (keys, both included).
-- Rows: by record_key.
SELECT record_key, bytes
FROM judgements
WHERE acquisition_id = $acquisition_id AND record_key BETWEEN $low AND $high
ORDER BY record_key

-- name: file
-- What is known of a file.
-- Parameters: $path.
-- Rows: one, or none.
SELECT inode, modified
FROM json_lines_files
WHERE path = $path

-- name: paths
-- The files that were written.
-- Rows: by path.
SELECT path
FROM json_lines_files
ORDER BY path

-- name: claim
-- Note that a file is written from now on.
-- Parameters: $path, $inode.
INSERT INTO json_lines_files
VALUES ($path, $inode, NULL)

-- name: settle
-- Note that a file is as committed, or that it is being written.
-- Parameters: $path, $inode, $modified (NULL while it is being written).
UPDATE json_lines_files
SET inode = $inode, modified = $modified
WHERE path = $path

-- name: forget
-- Forget a file of which no part is there.
-- Parameters: $path.
DELETE FROM json_lines_files
WHERE path = $path

-- name: parts
-- The parts of a file.
-- Parameters: $path.
-- Rows: by part.
SELECT part, acquisition_id, source, first_byte, end_byte, first_key, end_key, lines, digest
FROM json_lines
WHERE path = $path
ORDER BY part

-- name: begin
-- Note that an intake writes the next part of a file.
-- Parameters: $path, $part, $acquisition_id, $source, $first_byte, $end_byte, $first_key, $end_key,
-- $lines, $digest.
INSERT INTO json_lines
VALUES (
    $path, $part, $acquisition_id, $source, $first_byte, $end_byte, $first_key, $end_key, $lines,
    $digest
)

-- name: move
-- Note that a part without lines is the last one by now.
-- Parameters: $path, $before (the part it was), $part, $end (of the file).
UPDATE json_lines
SET part = $part, first_byte = $end, end_byte = $end
WHERE path = $path AND part = $before

-- name: advance
-- Note how far a part has come.
-- Parameters: $path, $part, $end_byte, $end_key, $lines, $digest.
UPDATE json_lines
SET end_byte = $end_byte, end_key = $end_key, lines = $lines, digest = $digest
WHERE path = $path AND part = $part

-- name: written_by
-- The file that an unfinished intake writes.
-- Parameters: $acquisition_id.
-- Rows: one, or none.
SELECT path
FROM json_lines
WHERE acquisition_id = $acquisition_id
ORDER BY end_key DESC
LIMIT 1

-- name: unfinished
-- The source whose unfinished intake has lines in a file, but for one intake.
-- Parameters: $path, $acquisition_id, $unpublished.
-- Rows: one, or none.
SELECT json_lines.source
FROM json_lines
JOIN acquisitions ON acquisitions.acquisition_id = json_lines.acquisition_id
WHERE
    json_lines.path = $path
    AND json_lines.lines > 0
    AND acquisitions.version = $unpublished
    AND acquisitions.acquisition_id <> $acquisition_id

-- name: elsewhere
-- How many records earlier intakes of a source have accepted that are not in a file.
-- Parameters: $path, $source_id, $unpublished.
SELECT coalesce(sum(accepted), 0)::BIGINT
FROM acquisitions
WHERE
    source_id = $source_id
    AND version <> $unpublished
    AND acquisition_id NOT IN (SELECT acquisition_id FROM json_lines WHERE path = $path)

-- name: intakes
-- The intakes that have written a file, with their parts of it.
-- Parameters: $path, $unpublished.
-- Rows: by part.
SELECT
    json_lines.part, json_lines.acquisition_id, json_lines.source, acquisitions.kind,
    acquisitions.uri, acquisitions.started_at, acquisitions.ended_at,
    CASE WHEN acquisitions.version <> $unpublished THEN acquisitions.version END AS version,
    acquisitions."read", acquisitions.accepted, acquisitions.filtered, acquisitions.rejected,
    acquisitions.unreadable, acquisitions.accepted_bytes, acquisitions.condition AS "where",
    acquisitions.size_mb, acquisitions.row_limit AS "limit", acquisitions.fingerprint,
    acquisitions.quality AS configuration, acquisitions.duckplets, json_lines.lines,
    json_lines.first_byte, json_lines.end_byte
FROM json_lines
LEFT JOIN acquisitions ON acquisitions.acquisition_id = json_lines.acquisition_id
WHERE json_lines.path = $path
ORDER BY json_lines.part

-- name: outcomes
-- How many rows of the intakes that have written a file ended how.
-- Parameters: $path.
-- Rows: by intake, outcome, gate and rule.
SELECT acquisition_id, outcome, gate, rule, count(*) AS "rows"
FROM judgements
WHERE acquisition_id IN (SELECT acquisition_id FROM json_lines WHERE path = $path)
GROUP BY ALL
ORDER BY ALL
