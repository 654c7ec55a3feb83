-- What a fetch needs to know of every conversation, apart from its messages.
-- Parameters: $weight_floor.
-- Rows: by record_key.
WITH counted AS (
    SELECT sections.record_key, sum(sections.token_count) AS tokens
    FROM sections
    SEMI JOIN conversations ON conversations.record_key = sections.record_key
    GROUP BY sections.record_key
)
SELECT
    conversations.record_key,
    coalesce(counted.tokens, 0)::BIGINT AS tokens,
    greatest($weight_floor, least(1, records.trust))::DOUBLE AS weight
FROM conversations
JOIN records ON records.record_key = conversations.record_key
LEFT JOIN counted ON counted.record_key = conversations.record_key
ORDER BY conversations.record_key
