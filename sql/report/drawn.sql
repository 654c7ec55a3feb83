-- name: texts
-- The texts of samples: each window with what stands before and after it in its section.
-- Parameters: $asked (JSON: the texts in order), $version (of the corpus), $cut (characters of a
-- window), $around (characters beside it).
-- Rows: as asked.
WITH asked AS (
    SELECT unnest(from_json($asked, '[{
        "number": "BIGINT", "position": "BIGINT", "recipe": "VARCHAR", "source": "VARCHAR",
        "swapped": "BOOLEAN", "slot": "VARCHAR", "record_id": "VARCHAR", "section": "BIGINT",
        "kind": "VARCHAR", "window": "BIGINT", "start": "BIGINT", "length": "BIGINT",
        "negative_by": "VARCHAR", "negative_rank": "BIGINT", "negative_score": "DOUBLE"
    }]'), recursive := true)
),

-- As they were at that version: what was replaced has the id of what took its place.
pinned AS (
    SELECT record_id, max(record_key) AS record_key
    FROM records
    WHERE added_version <= $version AND record_id IN (SELECT record_id FROM asked)
    GROUP BY record_id
),

-- Without their texts, which may be long, and come once more below.
chosen AS (
    SELECT
        asked.*, sections.section_key, sections.role, sections.heading,
        (
            SELECT max(candidates.positive_score)
            FROM candidates
            WHERE
                candidates.anchor_section_key = sections.section_key
                AND candidates.recipe = asked.recipe
                AND candidates.rank = 1
        ) AS positive_score
    FROM asked
    JOIN pinned ON pinned.record_id = asked.record_id
    JOIN sections
        ON sections.record_key = pinned.record_key AND sections.position = asked.section
)

SELECT
    chosen.position, chosen.recipe, chosen.source, chosen.swapped, chosen.slot, chosen.record_id,
    chosen.role, chosen.heading, chosen.kind, chosen."window",
    chosen.negative_by, chosen.negative_rank, chosen.negative_score, chosen.positive_score,
    right(left(sections.text, chosen.start), $around) AS before,
    substring(sections.text, chosen.start + 1, least(chosen.length, $cut)) AS text,
    substring(sections.text, chosen.start + chosen.length + 1, $around) AS after,
    chosen.length AS characters, length(sections.text) AS section_characters
FROM sections
JOIN chosen ON chosen.section_key = sections.section_key
ORDER BY chosen.number

-- name: messages
-- The messages of samples, those of rejected answers last.
-- Parameters: $asked (JSON: the samples in order), $version (of the corpus), $cut (characters of a
-- message), $each (messages of a list that are shown, the first).
-- Rows: as asked, messages in their order.
WITH asked AS (
    SELECT unnest(from_json($asked, '[{
        "number": "BIGINT", "position": "BIGINT", "recipe": "VARCHAR", "source": "VARCHAR",
        "record_id": "VARCHAR"
    }]'), recursive := true)
),

-- As they were at that version: what was replaced has the id of what took its place.
pinned AS (
    SELECT record_id, max(record_key) AS record_key
    FROM records
    WHERE added_version <= $version AND record_id IN (SELECT record_id FROM asked)
    GROUP BY record_id
),

lists AS (
    SELECT record_key, 'message' AS slot, messages
    FROM conversations
    UNION ALL
    SELECT record_key, 'rejected message' AS slot, rejected_messages AS messages
    FROM conversations
    WHERE rejected_messages IS NOT NULL
),

several AS (
    SELECT
        asked.*, lists.slot,
        from_json(
            lists.messages,
            '[{"role": "VARCHAR", "content": [{"type": "VARCHAR", "text": "VARCHAR"}],
            "tool_calls": "VARCHAR", "loss_weight": "DOUBLE"}]'
        ) AS messages
    FROM asked
    JOIN pinned ON pinned.record_id = asked.record_id
    JOIN lists ON lists.record_key = pinned.record_key
),

single AS (
    SELECT
        several.* EXCLUDE (messages),
        unnest(messages[:$each]) AS message,
        generate_subscripts(messages[:$each], 1) AS nth,
        len(messages) AS messages
    FROM several
),

written AS (
    SELECT
        single.*,
        concat_ws(
            chr(10),
            nullif(
                array_to_string(
                    [
                        CASE WHEN part.type = 'text' THEN part.text ELSE '(' || part.type || ')' END
                        FOR part IN single.message.content
                    ],
                    chr(10)
                ),
                ''
            ),
            single.message.tool_calls
        ) AS words
    FROM single
)

SELECT
    position, recipe, source, FALSE AS swapped,
    slot || ' ' || nth || ' of ' || messages AS slot,
    record_id, message.role AS role,
    'loss weight ' || message.loss_weight AS heading,
    'message' AS kind, NULL::BIGINT AS "window",
    NULL::VARCHAR AS negative_by, NULL::BIGINT AS negative_rank, NULL::DOUBLE AS negative_score,
    NULL::DOUBLE AS positive_score,
    '' AS before, left(words, $cut) AS text, '' AS after,
    length(words) AS characters, length(words) AS section_characters
FROM written
ORDER BY written.number, written.slot, written.nth
