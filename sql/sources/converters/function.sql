-- What is said in the messages that a user's function made.
-- `fields` is put in its place by duckplets/sources/converters/compose.py.
-- Rows: in the order of the input.
SELECT
    * EXCLUDE ("messages", "chosen_messages", "rejected_messages"),
    [
        {
            'field': CASE WHEN "chosen_messages" IS NULL THEN 'messages' ELSE 'chosen_messages' END,
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
            'weight': CAST(e.loss_weight AS VARCHAR)
        }
        FOR e, i IN from_json(
            coalesce("chosen_messages", "messages"),
            '[{"role":"JSON","content":"JSON","tool_calls":"JSON","function_call":"JSON",
            "tool_call_id":"JSON","name":"JSON","loss_weight":"JSON"}]'
        )
    ] AS said,
    [
        {
            'field': 'rejected_messages',
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
            'weight': CAST(e.loss_weight AS VARCHAR)
        }
        FOR e, i IN from_json(
            "rejected_messages", '[{"role":"JSON","content":"JSON","tool_calls":"JSON","function_call":"JSON",
            "tool_call_id":"JSON","name":"JSON","loss_weight":"JSON"}]'
        )
    ] AS rejected_said,
    CASE
        WHEN "chosen_messages" IS NULL THEN 'messages' ELSE 'chosen_messages'
    END AS prompt_heading,
    CASE
        WHEN "chosen_messages" IS NULL THEN 'messages' ELSE 'chosen_messages'
    END AS reply_heading
FROM fields
