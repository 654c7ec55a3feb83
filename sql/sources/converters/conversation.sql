-- Prompt, reply and messages of turns. The prompt is all that users, assistants and tools said before
-- the reply, from `asked_place` on, apart by blank lines; where that is not the first turn, or $each,
-- what users said. The messages end with the reply where there is one for each, and only it counts in
-- the loss. The identity is an MD5, which takes half the time of a SHA-256: it is hashed once more
-- with the rest, to 64 bits.
-- `spoken` is put in its place by duckplets/sources/converters/compose.py; for the rejected side of a pair
-- the columns turns, prompt, reply, messages and identity and the parameter field stand for others.
-- Parameters: $field (of the conversation), $filled (what a text that is not blank matches), $each
-- (whether there is a row for each reply).
-- Rows: in the order of the input.
WITH split AS (
    SELECT
        *,
        array_to_string(
            [
                s FOR s IN [
                    array_to_string(t.texts, chr(10)) FOR t IN list_slice(turns, asked_place, reply_place - 1)
                    IF CASE WHEN $each THEN t.role = 'user' ELSE t.role <> 'system' END
                ]
                IF regexp_matches(s, $filled)
            ],
            chr(10) || chr(10)
        ) AS prompt,
        '['
        || array_to_string(
            [
                concat(
                    '{"role":"', t.role, '","content":',
                    to_json([{'type': 'text', 'text': v} FOR v IN t.texts]), ',',
                    CASE WHEN t.more <> '' THEN t.more || ',' END, '"loss_weight":',
                    to_json(CASE WHEN $each AND i < reply_place THEN 0.0::DOUBLE ELSE t.weight END),
                    '}'
                )
                FOR t, i IN CASE WHEN $each THEN list_slice(turns, 1, reply_place) ELSE turns END
            ],
            ','
        )
        || ']' AS written
    FROM spoken
)
SELECT
    * EXCLUDE (turns, reply_place, asked_place, written, problem),
    array_to_string(turns[reply_place].texts, chr(10)) AS reply,
    written AS messages,
    concat('messages ', md5(written)) AS "identity",
    coalesce(
        problem,
        CASE
            WHEN len(turns) = 0
            THEN {
                'reason': concat($field, ' is empty'),
                'detail': concat('field ''', $field, ''': the conversation is empty')
            }
            WHEN turns IS NOT NULL AND reply_place IS NULL
            THEN {
                'reason': concat($field, ' has no turn of the assistant with text'),
                'detail': concat('field ''', $field, ''': no turn of the assistant with text')
            }
            WHEN prompt = ''
            THEN {
                'reason': concat($field, ' has nothing before the reply'),
                'detail': concat('field ''', $field, ''': nothing before the last reply')
            }
        END
    ) AS problem
FROM split
