-- What the guards look at, of wanted sections (Arrow: section_key): their records, families and
-- normalised texts.
-- Rows: by record id and position.
SELECT
    sections.section_key, sections.record_key, record_families.family,
    section_hashes.normalised_hash
FROM wanted
JOIN sections ON sections.section_key = wanted.section_key
JOIN records ON records.record_key = sections.record_key
JOIN record_families ON record_families.record_key = sections.record_key
JOIN section_hashes ON section_hashes.section_key = wanted.section_key
ORDER BY records.record_id, sections.position, sections.section_key
