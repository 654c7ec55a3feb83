-- name: quarantine
-- Append set_aside (Arrow): rows that cannot be used.
-- Parameters: $source (name), $version.
INSERT INTO quarantine (source, version, "row", reason, document, file, line)
SELECT $source, $version, "row", skip, quarantined, file, line
FROM set_aside

-- name: append
-- Append new_conversations (Arrow): the messages of converted records, as JSON.
INSERT INTO conversations
SELECT record_key, messages, rejected_messages
FROM new_conversations
WHERE messages IS NOT NULL
