-- The sections that the records of anchors take their positives from, as a table. Their windows
-- are listed in pool_positives (Arrow: record_key of the anchor, chunk_key).
CREATE TEMP TABLE exported_positives AS
SELECT DISTINCT pool_positives.record_key, chunks.section_key
FROM pool_positives
JOIN chunks ON chunks.chunk_key = pool_positives.chunk_key
