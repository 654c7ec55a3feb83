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
            'weight': NULL
        }
        FOR e, i IN from_json(
            "messages", '[{"role":"JSON","content":"JSON","tool_calls":"JSON"}]'
        )
    ] AS said,
    'messages' AS prompt_heading,
    'messages' AS reply_heading
FROM fields
