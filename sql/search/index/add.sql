-- Store what an index is.
-- Parameters: $index, $source, $split, $terms (JSON), $content, $version, $documents, $tokens.
INSERT INTO text_indexes
SELECT
    $index, source_id, $split, $terms, $content, $version, $documents, $tokens,
    now()::TIMESTAMP
FROM sources
WHERE name = $source AND removed_version IS NULL
