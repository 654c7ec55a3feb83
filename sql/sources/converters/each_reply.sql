-- A row for each reply of a conversation: a turn of the assistant that has text, after text of the
-- user that no earlier reply has answered. A conversation without one is one row.
-- `heard_turns` is put in its place by duckplets/sources/converters/compose.py.
-- Parameters: $filled (what a text that is not blank matches).
-- Rows: in the order of the input.
WITH answered AS (
    SELECT
        *,
        [
            i FOR t, i IN turns
            IF t.role = 'assistant' AND regexp_matches(array_to_string(t.texts, ''), $filled)
        ] AS replies
    FROM heard_turns
),
numbered AS (
    SELECT
        *,
        [
            n FOR n IN range(1, len(replies) + 1)
            IF len(
                [
                    t FOR t IN list_slice(turns, coalesce(replies[n - 1], 0) + 1, replies[n])
                    IF t.role = 'user'
                ]
            ) > 0
        ] AS numbers
    FROM answered
),
replies AS (
    SELECT * EXCLUDE (numbers), unnest(if(len(numbers) > 0, numbers, [1])) AS turn_number
    FROM numbered
)
SELECT
    * EXCLUDE (replies),
    left(md5(CAST(to_json(turns) AS VARCHAR)), 16) AS conversation,
    replies[turn_number] AS reply_place,
    coalesce(replies[turn_number - 1], 0) + 1 AS asked_place
FROM replies
