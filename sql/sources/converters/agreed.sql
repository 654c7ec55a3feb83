-- Preference pairs, of which both sides answer the same prompt; others are wrong.
-- `answered` is put in its place by duckplets/sources/converters/compose.py.
-- Parameters: $rejected_field (of the rejected conversation).
-- Rows: in the order of the input.
SELECT
    * EXCLUDE (problem),
    coalesce(
        problem,
        CASE
            WHEN prompt <> rejected_prompt
            THEN {
                'reason': concat($rejected_field, ' has another prompt'),
                'detail': concat(
                    'field ''', $rejected_field, ''': its prompt is not that of the other side: ',
                    left(rejected_prompt, 60)
                )
            }
        END
    ) AS problem
FROM answered
