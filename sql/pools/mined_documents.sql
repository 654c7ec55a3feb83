-- The documents that negatives are mined among: sections the negative selector matches.
-- Rows: by section_key and class_group.
SELECT DISTINCT record_key, section_key, class_group
FROM negatives
ORDER BY section_key, class_group
