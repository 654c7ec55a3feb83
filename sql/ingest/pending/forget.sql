-- Forget an unfinished ingest; its records stay.
-- Parameters: $name.
DELETE FROM unfinished_ingests WHERE name = $name
