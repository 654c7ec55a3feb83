-- name: openai
-- What is said in rows of OpenAI's messages.
-- `fields` is put in its place by duckplets/sources/converters/compose.py.
-- Rows: in the order of the input.
SELECT
    * EXCLUDE ("messages"),
    [
        {
            'field': 'messages',
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
        FOR e, i IN from_json(
            "messages",
            '[{"role":"JSON","content":"JSON","tool_calls":"JSON","function_call":"JSON",
            "tool_call_id":"JSON","name":"JSON","loss_weight":"JSON","weight":"JSON"}]'
        )
    ] AS said,
    'messages' AS prompt_heading,
    'messages' AS reply_heading
FROM fields

-- name: sharegpt
-- What is said in ShareGPT rows: the system column, then the conversation.
-- `fields` is put in its place by duckplets/sources/converters/compose.py.
-- Rows: in the order of the input.
SELECT
    * EXCLUDE ("system", "conversations"),
    list_concat(
        [
            {
                'field': 'system',
                'place': 1,
                'tag': '"system"',
                'content': s,
                'more': CAST(NULL AS VARCHAR),
                'weight': NULL
            }
            FOR s IN [CAST(to_json("system") AS VARCHAR)] IF s IS NOT NULL
        ],
        [
            {
                'field': 'conversations',
                'place': i,
                'tag': CAST(e."from" AS VARCHAR),
                'content': CAST(e."value" AS VARCHAR),
                'more': CAST(NULL AS VARCHAR),
                'weight': coalesce(
                    nullif(CAST(e.loss_weight AS VARCHAR), 'null'), CAST(e.weight AS VARCHAR)
                )
            }
            FOR e, i IN from_json(
                "conversations",
                '[{"from":"JSON","value":"JSON","loss_weight":"JSON","weight":"JSON"}]'
            )
        ]
    ) AS said,
    'conversations' AS prompt_heading,
    'conversations' AS reply_heading
FROM fields
