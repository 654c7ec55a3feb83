-- name: cleaned
-- Counts of the changes by preprocessors to the records of the newest version.
WITH left_of_them AS (
    SELECT section_key, record_key, position
    FROM stored_sections
    WHERE record_key IN (SELECT record_key FROM section_originals)
)

SELECT
    count(*) FILTER (WHERE sections.section_key IS NOT NULL) AS changed,
    count(*) FILTER (WHERE sections.section_key IS NULL) AS dropped,
    count(DISTINCT section_originals.record_key) FILTER (
        WHERE section_originals.record_key NOT IN (SELECT record_key FROM left_of_them)
    ) AS emptied
FROM section_originals
JOIN records ON records.record_key = section_originals.record_key
LEFT JOIN left_of_them AS sections
    ON sections.record_key = section_originals.record_key
    AND sections.position = section_originals.position
WHERE records.removed_version IS NULL

-- name: append_originals
-- Append new_originals (Arrow): texts before preprocessing.
INSERT INTO section_originals
SELECT record_key, position, role, heading, original
FROM new_originals

-- name: clear
-- Forget all sections and originals, to store them again.
DELETE FROM stored_sections;

DELETE FROM record_hashes;

DELETE FROM section_originals

-- name: originals
-- The sections of some records as they came. Sections that preprocessors dropped have no
-- section_key.
-- Parameters: $low, $high (record keys, both included).
-- Rows: by record and position.
SELECT
    stored.section_key,
    coalesce(stored.record_key, original.record_key) AS record_key,
    coalesce(stored.position, original.position) AS position,
    coalesce(stored.role, original.role) AS role,
    coalesce(stored.heading, original.heading) AS heading,
    coalesce(original.text, stored.text) AS text
FROM (SELECT * FROM sections WHERE record_key BETWEEN $low AND $high) AS stored
FULL JOIN (SELECT * FROM section_originals WHERE record_key BETWEEN $low AND $high) AS original
    ON original.record_key = stored.record_key AND original.position = stored.position
ORDER BY 2, 3

-- name: record_id
-- The id of a record.
-- Parameters: $record_key.
SELECT record_id
FROM records
WHERE record_key = $record_key
