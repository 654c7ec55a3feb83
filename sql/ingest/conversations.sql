-- name: quarantine
-- Append set_aside (Arrow): rows that cannot be used.
-- Parameters: $source (name), $version.
INSERT INTO quarantine (source, version, "row", reason, document, file, line)
SELECT $source, $version, "row", skip, quarantined, file, line
FROM set_aside

-- name: append
-- Append new_conversations (Arrow): the messages of converted records, as JSON. Within a text of JSON
-- every quote follows a backslash, so what is found are the keys themselves.
INSERT INTO conversations (record_key, messages, rejected_messages, has_tools)
SELECT
    record_key,
    messages,
    rejected_messages,
    regexp_matches(
        concat(messages, rejected_messages),
        '"(tool_calls|tool_call_id|name|reasoning_content|reasoning|thinking)":'
    ) AS has_tools
FROM new_conversations
WHERE messages IS NOT NULL

-- name: forget_quarantine
-- Delete the rows of a source that earlier versions set aside; returns their number.
-- Parameters: $source, $version.
DELETE FROM quarantine
WHERE source = $source AND version < $version
