-- The trust of a source, published or not.
-- Parameters: $source_id.
SELECT trust FROM sources WHERE source_id = $source_id
