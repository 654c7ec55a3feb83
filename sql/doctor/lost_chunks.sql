-- Chunks whose section is missing, or is of another record.
-- Rows: one, their number.
SELECT count(*)
FROM chunks
LEFT JOIN sections USING (section_key)
WHERE sections.record_key IS DISTINCT FROM chunks.record_key
