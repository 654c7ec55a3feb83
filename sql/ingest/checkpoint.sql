-- name: trust
-- The trust of a source, published or not.
-- Parameters: $source_id.
SELECT trust FROM sources WHERE source_id = $source_id

-- name: unpublished_records
-- A source's unpublished records.
-- Parameters: $source_id, $unpublished.
SELECT record_key
FROM records
WHERE source_id = $source_id AND removed_version = $unpublished

-- name: unpublished_intakes
-- A source's unfinished intakes through gates.
-- Parameters: $source_id, $unpublished.
SELECT acquisition_id
FROM acquisitions
WHERE source_id = $source_id AND version = $unpublished

-- name: discard
-- Delete records (Arrow discarded: record_key) and intakes (Arrow discarded_intakes:
-- acquisition_id), with all that belongs to them.
DELETE FROM chunks WHERE record_key IN (SELECT record_key FROM discarded);

DELETE FROM stored_sections WHERE record_key IN (SELECT record_key FROM discarded);

DELETE FROM section_originals WHERE record_key IN (SELECT record_key FROM discarded);

DELETE FROM splits WHERE record_key IN (SELECT record_key FROM discarded);

DELETE FROM conversations WHERE record_key IN (SELECT record_key FROM discarded);

DELETE FROM record_prefixes WHERE record_key IN (SELECT record_key FROM discarded);

DELETE FROM record_hashes WHERE record_key IN (SELECT record_key FROM discarded);

DELETE FROM records WHERE record_key IN (SELECT record_key FROM discarded);

DELETE FROM judgements
WHERE acquisition_id IN (SELECT acquisition_id FROM discarded_intakes);

DELETE FROM rejected_rows
WHERE acquisition_id IN (SELECT acquisition_id FROM discarded_intakes);

DELETE FROM acquisitions
WHERE acquisition_id IN (SELECT acquisition_id FROM discarded_intakes)

-- name: unfinished
-- Interrupted ingests; settings are null if an ingest cannot continue.
-- Rows: by name.
SELECT name, source_id, settings, cursor, counts, started_at, saved_at
FROM unfinished_ingests
ORDER BY name

-- name: begin
-- Note an ingest that can continue after a stop.
-- Parameters: $name, $source_id, $settings (JSON; null if it cannot continue), $cursor, $counts (JSON).
INSERT INTO unfinished_ingests
VALUES ($name, $source_id, $settings, $cursor, $counts, now()::TIMESTAMP, now()::TIMESTAMP)

-- name: save
-- Note how far an unfinished ingest has come.
-- Parameters: $name, $cursor (JSON), $counts (JSON).
UPDATE unfinished_ingests
SET cursor = $cursor, counts = $counts, saved_at = now()::TIMESTAMP
WHERE name = $name

-- name: first_record
-- The first of a source's unpublished records; NULL if it has none.
-- Parameters: $source_id, $unpublished.
SELECT min(record_key)
FROM records
WHERE source_id = $source_id AND removed_version = $unpublished

-- name: overtake
-- Show only the last of a source's unpublished records with one id: remove the others in the version
-- that adds them.
-- Parameters: $source_id, $unpublished, $version.
UPDATE records
SET added_version = $version, removed_version = $version
WHERE
    source_id = $source_id
    AND removed_version = $unpublished
    AND record_key NOT IN (
        SELECT max(record_key)
        FROM records
        WHERE source_id = $source_id AND removed_version = $unpublished
        GROUP BY record_id
    )

-- name: replace
-- Remove the live records whose ids a source's unpublished records take over.
-- Parameters: $source_id, $unpublished, $version.
UPDATE records
SET removed_version = $version
WHERE
    source_id = $source_id
    AND removed_version IS NULL
    AND record_id IN (
        SELECT record_id
        FROM records
        WHERE source_id = $source_id AND removed_version = $unpublished
    )

-- name: publish
-- Let a source's unpublished records be seen.
-- Parameters: $source_id, $unpublished, $version.
UPDATE records
SET added_version = $version, removed_version = NULL
WHERE source_id = $source_id AND removed_version = $unpublished

-- name: publish_source
-- Let a new source be seen.
-- Parameters: $source_id, $unpublished, $version.
UPDATE sources
SET added_version = $version, removed_version = NULL
WHERE source_id = $source_id AND removed_version = $unpublished

-- name: publish_quarantine
-- Give the quarantined rows of an ingest its version.
-- Parameters: $name, $unpublished, $version.
UPDATE quarantine
SET version = $version
WHERE source = $name AND version = $unpublished

-- name: give_up
-- Note that an unfinished ingest cannot continue.
-- Parameters: $name.
UPDATE unfinished_ingests
SET settings = 'null'
WHERE name = $name

-- name: forget
-- Forget an unfinished ingest; its records stay.
-- Parameters: $name.
DELETE FROM unfinished_ingests WHERE name = $name

-- name: discard_source
-- Delete a source that was never seen.
-- Parameters: $source_id, $unpublished.
DELETE FROM sources WHERE source_id = $source_id AND removed_version = $unpublished

-- name: discard_quarantine
-- Delete the quarantined rows of an ingest that was never finished.
-- Parameters: $name, $unpublished.
DELETE FROM quarantine WHERE source = $name AND version = $unpublished
