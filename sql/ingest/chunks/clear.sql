-- Forget all chunks.
DELETE FROM chunks
