-- name: sources
-- The number of conversations and of preference pairs in each source of a version.
-- Parameters: $version.
-- Rows: by name of the source.
WITH counts AS (
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
    coalesce(counts.conversations, 0) AS conversations,
    coalesce(counts.pairs, 0) AS pairs
FROM sources
LEFT JOIN counts ON counts.source_id = sources.source_id
WHERE is_live(sources.added_version, sources.removed_version, $version)
ORDER BY sources.name

-- name: calls_tools
-- Whether some conversation of a version calls tools.
-- Parameters: $version.
SELECT coalesce(bool_or(conversations.has_tools), FALSE)
FROM conversations
JOIN records ON records.record_key = conversations.record_key
WHERE records.added_version <= $version

-- name: pool
-- The conversations of a source and split as of a version, from which a sampler draws messages.
-- Parameters: $source, $split, $version, $hashed (whether the hash of their text is needed).
-- Rows: by the version that added the record, and the hash of its id.
SELECT
    conversations.record_key, records.id_hash,
    CASE WHEN $hashed THEN md5_number_lower(conversations.messages) ELSE 0 END::UBIGINT AS text_hash
FROM conversations
JOIN records ON records.record_key = conversations.record_key
JOIN splits ON splits.record_key = conversations.record_key
JOIN sources ON sources.source_id = records.source_id
WHERE
    sources.name = $source
    AND in_split(splits.split, $split)
    AND is_live(records.added_version, records.removed_version, $version)
ORDER BY records.added_version, records.id_hash, records.record_key

-- name: stored
-- The messages of requests as they are served (Arrow requested_messages: request, record_key); see
-- serving/conversations/sections.
-- Rows: in any order; request identifies them.
SELECT
    requests.request,
    conversations.messages || coalesce(chr(30) || conversations.rejected_messages, '') AS text
FROM requested_messages AS requests
JOIN conversations ON conversations.record_key = requests.record_key

-- name: parsed
-- Parse stored messages (Arrow stored_messages: request, text; see serving/conversations/sections).
-- Parameters: $chosen, $rejected (which to return as lists), $chosen_json, $rejected_json (which as
-- they are stored), $shape (of the lists, as from_json takes it).
-- Rows: in any order; request identifies them.
WITH stored AS (
    SELECT
        request,
        split_part(text, chr(30), 1) AS messages,
        nullif(split_part(text, chr(30), 2), '') AS rejected_messages
    FROM stored_messages
)
SELECT
    request,
    CASE
        WHEN $chosen
            THEN from_json(messages, $shape)
    END AS messages,
    CASE
        WHEN $rejected
            THEN from_json(rejected_messages, $shape)
    END AS rejected_messages,
    CASE WHEN $chosen_json THEN messages END AS messages_json,
    CASE WHEN $rejected_json THEN rejected_messages END AS rejected_messages_json
FROM stored
