-- Hash the normalised texts of sections that have none yet.
INSERT INTO text_hashes
SELECT
    section_key,
    md5_number_lower(
        lower(strip_accents(nfc_normalize(trim(regexp_replace(text, '\s+', ' ', 'g')))))
    )
FROM sections
WHERE section_key NOT IN (SELECT section_key FROM text_hashes)
ORDER BY section_key
