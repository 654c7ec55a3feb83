-- name: choose
-- Make a table of the records of a sample: whole families of train, from some sources.
-- Parameters: $sources (names), $most (records), $seed.
CREATE OR REPLACE TEMP TABLE kept_records AS
SELECT record_key, source_id
FROM (
    SELECT
        record_key, source_id,
        sum(1) OVER (
            ORDER BY md5_number_lower(concat_ws(chr(31), $seed, coalesce(group_key, record_id)))
            RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS together
    FROM live_records
    WHERE list_contains($sources, source) AND in_split(split, 'train')
)
WHERE together <= $most

-- name: documents
-- Add the documents of collections: first the documents in labels of the sample, then others.
-- Parameters: $sources (names), $most (documents), $seed.
INSERT INTO kept_records
SELECT record_key, source_id
FROM (
    SELECT
        record_key, source_id,
        id_hash IN (
            SELECT labels.document
            FROM labels
            JOIN records ON records.id_hash = labels.anchor
            SEMI JOIN kept_records ON kept_records.record_key = records.record_key
        ) AS is_judged,
        md5_number_lower(concat_ws(chr(31), $seed, record_id)) AS place
    FROM live_records
    WHERE
        source_id IN (
            SELECT documents_id FROM sources
            WHERE list_contains($sources, name) AND removed_version IS NULL
        )
        AND record_key NOT IN (SELECT record_key FROM kept_records)
)
ORDER BY is_judged DESC, place
LIMIT $most

-- name: sources
-- Make a table of the sources of the sample's records, and of their documents.
CREATE OR REPLACE TEMP TABLE kept_sources AS
SELECT source_id
FROM sources
WHERE
    removed_version IS NULL
    AND (
        source_id IN (SELECT source_id FROM kept_records)
        OR source_id IN (
            SELECT documents_id FROM sources
            WHERE source_id IN (SELECT source_id FROM kept_records)
        )
    )

-- name: chunks
-- Return the first window of each section of the sample.
-- Rows: by section.
SELECT chunks.*
FROM chunks
SEMI JOIN kept_records ON kept_records.record_key = chunks.record_key
WHERE kind = 'window'
QUALIFY row_number() OVER (PARTITION BY section_key ORDER BY chunk_key) = 1
ORDER BY section_key

-- name: sections
-- Return the sections of the sample, cut after their first window, with their texts.
-- Rows: by section.
SELECT
    sections.section_key, sections.record_key, sections.position, sections.role, sections.heading,
    left(sections.text, first.start + first.length) AS text,
    first.token_count, sections.normalised_hash
FROM sections
SEMI JOIN kept_records ON kept_records.record_key = sections.record_key
JOIN (
    SELECT section_key, start, length, token_count
    FROM chunks
    WHERE kind = 'window'
    QUALIFY row_number() OVER (PARTITION BY section_key ORDER BY chunk_key) = 1
) AS first ON first.section_key = sections.section_key
ORDER BY sections.section_key

-- name: labels
-- Return the labels between records of the sample.
-- Rows: in stored order.
WITH sides AS (
    SELECT id_hash AS side
    FROM records
    SEMI JOIN kept_records ON kept_records.record_key = records.record_key
    UNION
    SELECT text_side(chunks.text_hash)
    FROM chunks
    SEMI JOIN kept_records ON kept_records.record_key = chunks.record_key
)

SELECT *
FROM labels
WHERE anchor IN (SELECT side FROM sides) AND document IN (SELECT side FROM sides)

-- name: texts
-- Return the chunks of a sample with their texts.
-- Rows: by chunk_key.
SELECT chunks.chunk_key, substring(sections.text, chunks.start + 1, chunks.length) AS text
FROM chunks
JOIN sections ON sections.section_key = chunks.section_key
ORDER BY chunks.chunk_key
