-- What a sampler draws anchors from where negatives are mined: the windows of the pool, with their
-- sections, families and normalised texts.
-- Rows: by record_key and chunk_key.
SELECT record_key, chunk_key, section_key, text_hash, class, positives, normal, family
FROM verdicts
WHERE reason IS NULL
ORDER BY record_key, chunk_key
