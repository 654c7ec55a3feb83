-- The record that a section belongs to.
-- Parameters: $section_key.
SELECT records.record_id
FROM sections
JOIN records ON records.record_key = sections.record_key
WHERE sections.section_key = $section_key
