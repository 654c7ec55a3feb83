-- The messages of requests (Arrow asked_messages: request, record_key).
-- Parameters: $chosen, $rejected (which to return as lists), $chosen_json, $rejected_json (which as
-- they are stored).
-- Rows: in any order; request says which is which.
SELECT
    asked.request,
    CASE
        WHEN $chosen
            THEN from_json(
                conversations.messages,
                '[{"role": "VARCHAR", "content": [{"type": "VARCHAR", "value": "VARCHAR"}],
                "loss_weight": "DOUBLE"}]'
            )
    END AS messages,
    CASE
        WHEN $rejected
            THEN from_json(
                conversations.rejected_messages,
                '[{"role": "VARCHAR", "content": [{"type": "VARCHAR", "value": "VARCHAR"}],
                "loss_weight": "DOUBLE"}]'
            )
    END AS rejected_messages,
    CASE WHEN $chosen_json THEN conversations.messages END AS messages_json,
    CASE WHEN $rejected_json THEN conversations.rejected_messages END AS rejected_messages_json
FROM asked_messages AS asked
JOIN conversations ON conversations.record_key = asked.record_key
