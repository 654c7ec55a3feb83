-- The sections that positives are taken from, by the record of the anchor.
-- Rows: by record_key (the anchor's) and section_key.
SELECT DISTINCT record_key, section_key
FROM positives
ORDER BY record_key, section_key
