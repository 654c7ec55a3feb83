-- Ingests that stopped half-way.
-- Rows: by name.
SELECT name, source_id, settings, cursor, counts, started_at, saved_at
FROM unfinished_ingests
ORDER BY name
