-- Delete the quarantined rows of an ingest that was never finished.
-- Parameters: $name, $unpublished.
DELETE FROM quarantine WHERE source = $name AND version = $unpublished
