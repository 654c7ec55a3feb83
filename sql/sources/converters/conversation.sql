-- Prompt, reply and messages of turns. The reply is the assistant's last turn; the prompt all that
-- users, assistants and tools said before it, apart by blank lines. The identity is an MD5, which
-- takes half the time of a SHA-256: it is hashed once more with the rest, to 64 bits.
-- `spoken` is put in its place by duckplets/sources/converters/compose.py; for the rejected side of a pair
-- the columns turns, prompt, reply, messages and identity and the parameter field stand for others.
-- Parameters: $field (of the conversation), $filled (what a text that is not blank matches).
-- Rows: in the order of the input.
WITH placed AS (
    SELECT
        *,
        len(turns) + 1
        - nullif(list_position(list_reverse([t.role FOR t IN turns]), 'assistant'), 0) AS last_place
    FROM spoken
),
split AS (
    SELECT
        * EXCLUDE (last_place),
        last_place,
        array_to_string(
            [
                s FOR s IN [
                    array_to_string(t.texts, chr(10)) FOR t IN turns[1:last_place - 1]
                    IF t.role <> 'system'
                ]
                IF regexp_matches(s, $filled)
            ],
            chr(10) || chr(10)
        ) AS prompt,
        CAST(
            to_json(
                [
                    {
                        'role': t.role,
                        'content': [{'type': 'text', 'value': v} FOR v IN t.texts],
                        'loss_weight': t.weight
                    }
                    FOR t IN turns
                ]
            ) AS VARCHAR
        ) AS written
    FROM placed
)
SELECT
    * EXCLUDE (turns, last_place, written, problem),
    array_to_string(turns[last_place].texts, chr(10)) AS reply,
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
            WHEN turns IS NOT NULL AND last_place IS NULL
            THEN {
                'reason': concat($field, ' has no turn of the assistant'),
                'detail': concat('field ''', $field, ''': no turn of the assistant')
            }
            WHEN prompt = ''
            THEN {
                'reason': concat($field, ' has nothing before the reply'),
                'detail': concat('field ''', $field, ''': nothing before the last reply')
            }
        END
    ) AS problem
FROM split
