-- Note an ingest that may stop and go on.
-- Parameters: $name, $source_id, $settings (JSON), $cursor (JSON), $counts (JSON).
INSERT INTO unfinished_ingests
VALUES ($name, $source_id, $settings, $cursor, $counts, now()::TIMESTAMP, now()::TIMESTAMP)
