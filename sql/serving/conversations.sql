-- name: size
-- How many conversations there are, and the characters of all.
SELECT
    count(*) AS conversations,
    coalesce(sum(length(messages) + coalesce(length(rejected_messages), 0)), 0)::BIGINT
        AS characters
FROM conversations

-- name: last
-- The last published record: keys above it may be used again.
-- Parameters: $unpublished.
SELECT coalesce(max(record_key), 0)
FROM records
WHERE removed_version IS DISTINCT FROM $unpublished

-- name: count
-- How many conversations a range of records has, as sections and as chunks, and the characters of
-- all.
-- Parameters: $low, $high (record keys, both included).
SELECT
    count(*) AS sections, count(*) AS chunks,
    coalesce(sum(length(messages) + coalesce(length(rejected_messages), 0)), 0)::BIGINT
        AS characters
FROM conversations
WHERE record_key BETWEEN $low AND $high

-- name: sizes
-- How many characters the conversations of every 64 records have.
-- Parameters: $low, $high (record keys, both included).
-- Rows: by key.
SELECT
    record_key // 64 AS part,
    sum(length(messages) + coalesce(length(rejected_messages), 0))::BIGINT AS characters
FROM conversations
WHERE record_key BETWEEN $low AND $high
GROUP BY part
ORDER BY part

-- name: sections
-- Conversations as sections with JSON as text: the messages. The rejected messages of a preference
-- pair follow a record separator, which JSON cannot have.
-- Parameters: $low, $high (record keys, both included).
-- Rows: by section_key, the key of the record.
SELECT
    record_key AS section_key,
    messages || coalesce(chr(30) || rejected_messages, '') AS text,
    record_key,
    0 AS role
FROM conversations
WHERE record_key BETWEEN $low AND $high
ORDER BY record_key

-- name: chunks
-- Conversations as chunks, with the columns that serving needs.
-- Parameters: $low, $high (record keys, both included), $floor (of weights).
-- Rows: by chunk_key, the key of the record.
WITH counted AS (
    SELECT record_key, sum(token_count) AS tokens
    FROM stored_sections AS sections
    WHERE record_key BETWEEN $low AND $high
    GROUP BY record_key
)
SELECT
    conversations.record_key AS chunk_key,
    conversations.record_key AS section_key,
    conversations.record_key,
    coalesce(counted.tokens, 0)::INTEGER AS tokens,
    0 AS start,
    -1 AS length,
    0 AS window_index,
    greatest($floor, least(1, records.trust))::DOUBLE AS weight
FROM conversations
JOIN records ON records.record_key = conversations.record_key
LEFT JOIN counted ON counted.record_key = conversations.record_key
WHERE conversations.record_key BETWEEN $low AND $high
ORDER BY conversations.record_key
