-- name: left_out
-- The chunks and texts without a vector that a run skips, by source (Arrow kept_texts: text_hash).
-- Parameters: $split, $version, $sources (names).
-- Rows: by source.
SELECT source, count(*) AS chunks, count(DISTINCT text_hash) AS texts
FROM chunks_without_text(NULL, $split, $version) AS slot
WHERE
    list_contains($sources::VARCHAR[], source)
    AND NOT EXISTS (SELECT 1 FROM kept_texts WHERE kept_texts.text_hash = slot.text_hash)
GROUP BY source
ORDER BY source
