-- What a sampler draws anchors from: the chunks of the pool.
-- Rows: by record_key and chunk_key.
SELECT record_key, chunk_key, text_hash, positives, anchor_names
FROM verdicts
WHERE reason IS NULL
ORDER BY record_key, chunk_key
