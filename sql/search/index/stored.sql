-- The stored indexes.
-- Parameters: $source (NULL for all), $split (NULL for all).
-- Rows: by source, then split.
SELECT
    text_indexes.index_key, sources.name AS source, text_indexes.split, text_indexes.documents,
    text_indexes.tokens, text_indexes.terms, text_indexes.content
FROM text_indexes
JOIN sources ON sources.source_id = text_indexes.source_id
WHERE
    sources.name = coalesce($source, sources.name)
    AND text_indexes.split = coalesce($split, text_indexes.split)
ORDER BY sources.name, text_indexes.split, text_indexes.index_key
