-- What else can be known of requested records (Arrow asked_messages: request, record_key).
-- Rows: by request.
SELECT records.record_id, records.trust, records.date, records.meta
FROM asked_messages AS asked
JOIN records ON records.record_key = asked.record_key
ORDER BY asked.request
