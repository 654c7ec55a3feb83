-- Append new_chunks (Arrow), each with the hash of its text.
INSERT INTO chunks
SELECT
    chunk_key, section_key, record_key, kind, window_index, overlap, start, length,
    start_token, token_count, md5_number_lower(text)
FROM new_chunks
