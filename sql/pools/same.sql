-- Positives an anchor must not be paired with: those of its very text.
-- Rows: by the anchor's and the positive's chunk_key.
SELECT anchors.chunk_key, positives.chunk_key AS positive_key
FROM anchors JOIN positives USING (record_key, text_hash)
ORDER BY ALL
