-- Note how far an unfinished ingest has come.
-- Parameters: $name, $cursor (JSON), $counts (JSON).
UPDATE unfinished_ingests
SET cursor = $cursor, counts = $counts, saved_at = now()::TIMESTAMP
WHERE name = $name
