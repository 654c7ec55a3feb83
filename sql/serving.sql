-- name: state
-- What a snapshot is checked against; it costs the same at any size, for counts and ends of keys
-- are kept with the tables.
-- Parameters: $version (of the corpus; history is that up to it).
SELECT
    (SELECT count(*) FROM chunks) AS chunks,
    (
        SELECT md5(
            string_agg(
                version || ' ' || committed_at || ' ' || what || ' ' || coalesce(source, ''),
                chr(31) ORDER BY version
            )
        )
        FROM corpus_versions
        WHERE version <= $version
    ) AS history,
    (
        SELECT coalesce(md5(string_agg(name || ' ' || value, chr(31) ORDER BY name)), '')
        FROM settings
        WHERE name IN ('chunking', 'splits', 'rearranged')
    ) AS settings

-- name: characters
-- How many characters all chunks have together.
SELECT coalesce(sum(length), 0)::BIGINT
FROM chunks

-- name: ends
-- The last section of a published record: keys above it may be given out again.
-- Parameters: $unpublished.
SELECT coalesce(max(section_key), 0)
FROM stored_sections AS sections
WHERE
    record_key <= (
        SELECT max(record_key) FROM records WHERE removed_version IS DISTINCT FROM $unpublished
    )

-- name: sizes
-- How many characters the chunks of every 64 sections have.
-- Parameters: $low, $high (section keys, both included).
-- Rows: by key.
SELECT section_key // 64 AS part, sum(length)::BIGINT AS characters
FROM chunks
WHERE section_key BETWEEN $low AND $high
GROUP BY part
ORDER BY part

-- name: sections
-- The texts of sections, each with its record and role.
-- Parameters: $low, $high (section keys, both included), $roles (their names).
-- Rows: by section_key.
SELECT section_key, text, record_key, list_position($roles::VARCHAR[], role) - 1 AS role
FROM sections
WHERE section_key BETWEEN $low AND $high
ORDER BY section_key

-- name: count_sections
-- How many sections there are of a range of keys.
-- Parameters: $low, $high (section keys, both included).
SELECT count(*)
FROM stored_sections AS sections
WHERE section_key BETWEEN $low AND $high

-- name: chunks
-- What serving needs to know of every chunk, apart from its text. A length of -1 stands for the
-- whole section, which needs no cutting.
-- Parameters: $low, $high (section keys, both included), $summary_weight, $weight_floor, $by_start
-- (weigh by start_ratio, not by index), $by_chunker (spans of a chunker: one that has all tokens of
-- its section may still leave white space out, or begin within a token).
-- Rows: by chunk_key, which counts on without gaps.
SELECT
    chunks.chunk_key,
    chunks.section_key,
    chunks.token_count AS tokens,
    chunks.start,
    CASE
        WHEN
            NOT $by_chunker
            AND chunks.kind = 'window'
            AND chunks.token_count = sections.token_count
            THEN -1
        ELSE chunks.length
    END::INTEGER AS length,
    CASE WHEN chunks.kind = 'window' THEN chunks.window_index ELSE -1 END::INTEGER
        AS window_index,
    greatest(
        $weight_floor,
        least(
            1,
            records.trust * CASE
                WHEN chunks.kind = 'summary' THEN $summary_weight
                WHEN $by_start THEN 1 - chunks.start_token / sections.token_count
                ELSE 1 / (chunks.window_index + 1)
            END
        )
    )::DOUBLE AS weight
FROM chunks
JOIN stored_sections AS sections ON sections.section_key = chunks.section_key
JOIN records ON records.record_key = chunks.record_key
WHERE
    chunks.section_key BETWEEN $low AND $high AND sections.section_key BETWEEN $low AND $high
ORDER BY chunks.chunk_key

-- name: conversation_ranges
-- The ranges of record keys that have conversations, with the last key of each.
-- Parameters: $size (of a range), $unpublished.
-- Rows: by range.
SELECT conversations.record_key // $size AS part, max(conversations.record_key) AS last
FROM conversations
JOIN records ON records.record_key = conversations.record_key
WHERE records.removed_version IS DISTINCT FROM $unpublished
GROUP BY part
ORDER BY part

-- name: conversation_facts
-- What a fetch needs to know of the conversations of a range of records, apart from their messages.
-- Parameters: $low, $high (record keys, both included), $weight_floor.
-- Rows: by record_key.
WITH counted AS (
    SELECT record_key, sum(token_count) AS tokens
    FROM stored_sections AS sections
    WHERE record_key BETWEEN $low AND $high
    GROUP BY record_key
)
SELECT
    conversations.record_key,
    coalesce(counted.tokens, 0)::BIGINT AS tokens,
    greatest($weight_floor, least(1, records.trust))::DOUBLE AS weight
FROM conversations
JOIN records ON records.record_key = conversations.record_key
LEFT JOIN counted ON counted.record_key = conversations.record_key
WHERE conversations.record_key BETWEEN $low AND $high
ORDER BY conversations.record_key

-- name: conversations
-- The messages of a range of records, as JSON.
-- Parameters: $low, $high (record keys, both included).
-- Rows: by record_key.
SELECT record_key, messages, rejected_messages
FROM conversations
WHERE record_key BETWEEN $low AND $high
ORDER BY record_key
