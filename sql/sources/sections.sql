-- The sections that rows bring whole, and what is wrong with them.
-- `cells` is put in its place by duckplets/sources/statement.py: given_text is the list as JSON, or
-- NULL; all other columns are handed on.
-- given_sections are those of the list, given_problem the reason for which the row is no record, or
-- NULL, and given_shown what it has there.
-- Rows: in the order of the input.
WITH parsed AS (
    SELECT
        *,
        [
            {
                'role': CAST(e."role" AS VARCHAR),
                'heading': CAST(e.heading AS VARCHAR),
                'text': CAST(e."text" AS VARCHAR)
            }
            FOR e IN TRY(
                from_json(given_text, '[{"role":"JSON","heading":"JSON","text":"JSON"}]')
            )
        ] AS given
    FROM cells
),
judged AS (
    SELECT
        *,
        [
            CASE
                WHEN coalesce(g."role", '') NOT IN ('"anchor"', '"context"', '"rejected"')
                THEN {
                    'reason': 'sections: a role that is not anchor, context or rejected',
                    'shown': concat('section ', i, ', role: ', coalesce(g."role", 'missing'))
                }
                WHEN NOT (starts_with(g.heading, '"') OR g.heading = 'null')
                THEN {
                    'reason': 'sections: a heading that is not text',
                    'shown': concat('section ', i, ', heading: ', g.heading)
                }
                WHEN NOT (starts_with(g."text", '"') OR g."text" IN ('null', '[]'))
                THEN {
                    'reason': 'sections: a text that is not text',
                    'shown': concat('section ', i, ', text: ', g."text")
                }
            END
            FOR g, i IN given
        ] AS faults
    FROM parsed
),
found AS (
    SELECT *, [f FOR f IN faults IF f IS NOT NULL][1] AS fault_there
    FROM judged
)
SELECT
    * EXCLUDE (given_text, given, faults, fault_there),
    coalesce(
        [
            {
                'role': json_extract_string(g."role", '$'),
                'heading': json_extract_string(g.heading, '$'),
                'text': json_extract_string(g."text", '$')
            }
            FOR g IN given
            IF starts_with(g."text", '"')
        ],
        []
    ) AS given_sections,
    CASE
        WHEN given_text IS NOT NULL AND given IS NULL THEN 'sections: not a list of sections'
        ELSE fault_there.reason
    END AS given_problem,
    left(
        CASE
            WHEN given_text IS NOT NULL AND given IS NULL THEN given_text
            ELSE fault_there.shown
        END,
        80
    ) AS given_shown
FROM found
