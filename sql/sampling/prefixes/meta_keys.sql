-- The keys of meta of a source's records, whatever their version.
-- Parameters: $source_id.
-- Rows: by key.
SELECT DISTINCT unnest(map_keys(meta)) AS name
FROM records
WHERE source_id = $source_id
ORDER BY name
