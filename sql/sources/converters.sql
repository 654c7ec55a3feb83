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
            'content': CAST(coalesce(nullif(e.tool_calls, '[]'), e.content) AS VARCHAR),
            'weight': coalesce(
                nullif(CAST(e.loss_weight AS VARCHAR), 'null'), CAST(e.weight AS VARCHAR)
            )
        }
        FOR e, i IN from_json(
            "messages",
            '[{"role":"JSON","content":"JSON","tool_calls":"JSON","loss_weight":"JSON","weight":"JSON"}]'
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
            {'field': 'system', 'place': 1, 'tag': '"system"', 'content': s, 'weight': NULL}
            FOR s IN [CAST(to_json("system") AS VARCHAR)] IF s IS NOT NULL
        ],
        [
            {
                'field': 'conversations',
                'place': i,
                'tag': CAST(e."from" AS VARCHAR),
                'content': CAST(e."value" AS VARCHAR),
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
