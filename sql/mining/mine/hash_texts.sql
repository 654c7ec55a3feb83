-- Keep the hashes of the normalised texts of sections that have none yet.
INSERT INTO text_hashes
SELECT section_key, normalised_hash(text)
FROM sections
WHERE section_key NOT IN (SELECT section_key FROM text_hashes)
ORDER BY section_key
