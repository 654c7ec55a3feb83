-- Give the quarantined rows of an ingest its version.
-- Parameters: $name, $unpublished, $version.
UPDATE quarantine
SET version = $version
WHERE source = $name AND version = $unpublished
