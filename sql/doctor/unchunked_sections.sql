-- Sections that have text and no window.
-- Rows: one, their number.
SELECT count(*)
FROM sections
WHERE
    token_count > 0
    AND section_key NOT IN (SELECT section_key FROM chunks WHERE kind = 'window')
