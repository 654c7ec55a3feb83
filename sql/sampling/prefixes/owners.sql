-- The record of every chunk.
-- Rows: by chunk_key, as those of fetch/chunks.
SELECT record_key
FROM chunks
ORDER BY chunk_key
