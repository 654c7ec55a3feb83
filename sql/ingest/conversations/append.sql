-- Append new_conversations (Arrow): the messages of converted records, as JSON.
INSERT INTO conversations
SELECT record_key, messages, rejected_messages
FROM new_conversations
WHERE messages IS NOT NULL
