-- What a sampler draws negatives from where they are mined, with their sections and families.
-- Rows: by group, record and chunk_key.
SELECT class_group, record_key, chunk_key, section_key, text_hash, family
FROM negatives
ORDER BY class_group, record_key, chunk_key
