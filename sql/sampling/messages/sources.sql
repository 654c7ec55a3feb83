-- How many conversations, and how many preference pairs among them, the sources of a version have.
-- Parameters: $version.
-- Rows: by name of the source.
WITH held AS (
    SELECT
        records.source_id,
        count(*) AS conversations,
        count(conversations.rejected_messages) AS pairs
    FROM conversations
    JOIN records ON records.record_key = conversations.record_key
    WHERE is_live(records.added_version, records.removed_version, $version)
    GROUP BY records.source_id
)
SELECT
    sources.name,
    coalesce(held.conversations, 0) AS conversations,
    coalesce(held.pairs, 0) AS pairs
FROM sources
LEFT JOIN held ON held.source_id = sources.source_id
WHERE is_live(sources.added_version, sources.removed_version, $version)
ORDER BY sources.name
