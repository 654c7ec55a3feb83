-- What preprocessors did to the records of the newest version.
-- Rows: one.
SELECT
    count(*) FILTER (WHERE sections.section_key IS NOT NULL) AS changed,
    count(*) FILTER (WHERE sections.section_key IS NULL) AS dropped,
    count(DISTINCT section_originals.record_key) FILTER (
        WHERE section_originals.record_key NOT IN (SELECT record_key FROM sections)
    ) AS emptied
FROM section_originals
JOIN records ON records.record_key = section_originals.record_key
LEFT JOIN sections
    ON sections.record_key = section_originals.record_key
    AND sections.position = section_originals.position
WHERE records.removed_version IS NULL
