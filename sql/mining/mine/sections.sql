-- What the guards look at, of wanted sections (Arrow: section_key). Text that differs in case,
-- accents, composition or white space only has one text_hash. The family of a record is its
-- group, or itself.
-- Rows: by record id and position.
SELECT
    sections.section_key,
    sections.record_key,
    coalesce(md5_number_lower('group' || records.group_key), records.record_key) AS family,
    text_hashes.text_hash
FROM wanted
JOIN sections ON sections.section_key = wanted.section_key
JOIN records ON records.record_key = sections.record_key
JOIN text_hashes ON text_hashes.section_key = wanted.section_key
ORDER BY records.record_id, sections.position, sections.section_key
