-- What is said in preference pairs: the prompt, then the chosen or the rejected turns. A list that
-- does not begin with the assistant has a prompt of its own.
-- `fields` is put in its place by duckplets/sources/converters/compose.py.
-- Parameters: $filled (what a text that is not blank matches).
-- Rows: in the order of the input.
WITH asked AS (
    SELECT
        * EXCLUDE ("prompt", "instruction", "input", "question", "chosen", "rejected"),
        CASE
            WHEN "prompt_list" IS NOT NULL OR regexp_matches("prompt", $filled) THEN 'prompt'
            WHEN regexp_matches(concat("instruction", "input"), $filled) THEN 'instruction'
            WHEN regexp_matches("question", $filled) THEN 'question'
        END AS asked_in,
        CASE
            WHEN regexp_matches("prompt", $filled) THEN "prompt"
            WHEN regexp_matches(concat("instruction", "input"), $filled)
            THEN concat("instruction", "input")
            ELSE "question"
        END AS asked,
        from_json("prompt_list", '[{"role":"JSON","content":"JSON","tool_calls":"JSON","function_call":"JSON",
            "tool_call_id":"JSON","name":"JSON","loss_weight":"JSON","weight":"JSON"}]') AS asked_list,
        from_json(
            coalesce(
                "chosen_list", CAST(to_json([{'role': 'assistant', 'content': "chosen"}]) AS VARCHAR)
            ),
            '[{"role":"JSON","content":"JSON","tool_calls":"JSON","function_call":"JSON",
            "tool_call_id":"JSON","name":"JSON","loss_weight":"JSON","weight":"JSON"}]'
        ) AS "chosen",
        from_json(
            coalesce(
                "rejected_list",
                CAST(to_json([{'role': 'assistant', 'content': "rejected"}]) AS VARCHAR)
            ),
            '[{"role":"JSON","content":"JSON","tool_calls":"JSON","function_call":"JSON",
            "tool_call_id":"JSON","name":"JSON","loss_weight":"JSON","weight":"JSON"}]'
        ) AS "rejected"
    FROM fields
),
opened AS (
    SELECT
        *,
        list_concat(
            [
                {
                    'field': 'system',
                    'place': 1,
                    'tag': '"system"',
                    'content': s,
                    'more': CAST(NULL AS VARCHAR),
                    'weight': CAST(NULL AS VARCHAR)
                }
                FOR s IN [CAST(to_json("system") AS VARCHAR)] IF s IS NOT NULL
            ],
            CASE
                WHEN asked_list IS NOT NULL
                THEN [
                    {
                        'field': 'prompt',
                        'place': i,
                        'tag': CAST(e."role" AS VARCHAR),
                        'content': CAST(e.content AS VARCHAR),
                        'more': CASE
                WHEN coalesce(e.tool_calls, e.function_call, e.tool_call_id, e."name") IS NOT NULL
                THEN CAST(
                    to_json(
                        {
                            'tool_calls': e.tool_calls,
                            'function_call': e.function_call,
                            'tool_call_id': e.tool_call_id,
                            'name': e."name"
                        }
                    ) AS VARCHAR
                )
            END,
                        'weight': coalesce(
                            nullif(CAST(e.loss_weight AS VARCHAR), 'null'), CAST(e.weight AS VARCHAR)
                        )
                    }
                    FOR e, i IN asked_list
                ]
                WHEN asked_in IS NOT NULL
                THEN [
                    {
                        'field': asked_in,
                        'place': 1,
                        'tag': '"user"',
                        'content': CAST(to_json(asked) AS VARCHAR),
                        'more': CAST(NULL AS VARCHAR),
                        'weight': CAST(NULL AS VARCHAR)
                    }
                ]
                ELSE []
            END
        ) AS opening
    FROM asked
)
SELECT
    * EXCLUDE (
        "system", "prompt_list", "chosen_list", "rejected_list", asked_in, asked, asked_list,
        "chosen", "rejected", opening
    ),
    list_concat(
        CASE
            WHEN "chosen"[1]."role" = '"assistant"' THEN opening
            WHEN "chosen"[1]."role" <> '"system"'
            THEN [o FOR o IN opening IF o."field" = 'system']
            ELSE []
        END,
        [
            {
                'field': 'chosen',
                'place': i,
                'tag': CAST(e."role" AS VARCHAR),
                'content': CAST(e.content AS VARCHAR),
                'more': CASE
                WHEN coalesce(e.tool_calls, e.function_call, e.tool_call_id, e."name") IS NOT NULL
                THEN CAST(
                    to_json(
                        {
                            'tool_calls': e.tool_calls,
                            'function_call': e.function_call,
                            'tool_call_id': e.tool_call_id,
                            'name': e."name"
                        }
                    ) AS VARCHAR
                )
            END,
                'weight': coalesce(
                    nullif(CAST(e.loss_weight AS VARCHAR), 'null'), CAST(e.weight AS VARCHAR)
                )
            }
            FOR e, i IN "chosen"
        ]
    ) AS said,
    list_concat(
        CASE
            WHEN "rejected"[1]."role" = '"assistant"' THEN opening
            WHEN "rejected"[1]."role" <> '"system"'
            THEN [o FOR o IN opening IF o."field" = 'system']
            ELSE []
        END,
        [
            {
                'field': 'rejected',
                'place': i,
                'tag': CAST(e."role" AS VARCHAR),
                'content': CAST(e.content AS VARCHAR),
                'more': CASE
                WHEN coalesce(e.tool_calls, e.function_call, e.tool_call_id, e."name") IS NOT NULL
                THEN CAST(
                    to_json(
                        {
                            'tool_calls': e.tool_calls,
                            'function_call': e.function_call,
                            'tool_call_id': e.tool_call_id,
                            'name': e."name"
                        }
                    ) AS VARCHAR
                )
            END,
                'weight': coalesce(
                    nullif(CAST(e.loss_weight AS VARCHAR), 'null'), CAST(e.weight AS VARCHAR)
                )
            }
            FOR e, i IN "rejected"
        ]
    ) AS rejected_said,
    CASE WHEN "chosen"[1]."role" = '"assistant"' THEN asked_in ELSE 'chosen' END AS prompt_heading,
    'chosen' AS reply_heading
FROM opened
