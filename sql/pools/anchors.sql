-- What a sampler draws anchors from: the windows of the pool, with the number of positives that
-- have their very text.
-- Rows: by record_key and chunk_key.
SELECT record_key, chunk_key, text_hash, class, same
FROM verdicts
WHERE reason IS NULL
ORDER BY record_key, chunk_key
