-- The conversations of a source and split as of a version: what a sampler draws messages from.
-- Parameters: $source, $split, $version, $hashed (whether the hash of their text is needed).
-- Rows: by record_key.
SELECT
    conversations.record_key,
    CASE WHEN $hashed THEN md5_number_lower(conversations.messages) ELSE 0 END::UBIGINT AS text_hash
FROM conversations
JOIN records ON records.record_key = conversations.record_key
JOIN splits ON splits.record_key = conversations.record_key
JOIN sources ON sources.source_id = records.source_id
WHERE
    sources.name = $source
    AND splits.split = $split
    AND is_live(records.added_version, records.removed_version, $version)
ORDER BY conversations.record_key
