-- What a sampler draws negatives from.
-- Rows: by group, record and chunk_key.
SELECT record_key, chunk_key, text_hash, negative_names
FROM negatives
ORDER BY negative_order
