-- What a sampler draws texts from: the windows of the pool.
-- Rows: by record_key and chunk_key.
SELECT record_key, chunk_key, text_hash
FROM anchors
ORDER BY record_key, chunk_key
