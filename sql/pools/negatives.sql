-- What a sampler draws negatives from.
-- Rows: by group, record and chunk_key.
SELECT class_group, record_key, chunk_key, text_hash
FROM negatives
ORDER BY class_group, record_key, chunk_key
