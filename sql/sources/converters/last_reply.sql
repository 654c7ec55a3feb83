-- Where the reply of a conversation stands: the last turn of the assistant that has text.
-- `heard_turns` is put in its place by duckplets/sources/converters/compose.py; for the rejected side of a
-- pair turns, reply_place and asked_place stand for others.
-- Parameters: $filled (what a text that is not blank matches).
-- Rows: in the order of the input.
SELECT
    *,
    list_last(
        [
            i FOR t, i IN turns
            IF t.role = 'assistant' AND regexp_matches(array_to_string(t.texts, ''), $filled)
        ]
    ) AS reply_place,
    1 AS asked_place
FROM heard_turns
