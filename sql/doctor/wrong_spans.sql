-- Chunks whose span does not lie within the text of their section.
-- Rows: one, their number.
SELECT count(*)
FROM chunks
JOIN sections USING (section_key)
WHERE
    chunks.start < 0
    OR chunks.length < 1
    OR chunks.start::BIGINT + chunks.length > length(sections.text)
