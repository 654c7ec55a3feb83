-- Sections whose token count cannot be right: below 0, or smaller than that of a chunk.
-- Rows: one, their number.
SELECT count(*)
FROM sections
WHERE
    token_count < 0
    OR section_key IN (
        SELECT chunks.section_key
        FROM chunks
        JOIN sections USING (section_key)
        WHERE chunks.start_token + chunks.token_count > sections.token_count
    )
