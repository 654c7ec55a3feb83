-- What a sampler draws positives from.
-- Rows: by record_key (the anchor's) and chunk_key.
SELECT record_key, chunk_key, text_hash
FROM positives
ORDER BY record_key, chunk_key
