-- Note a committed change of the records.
-- Parameters: $version, $what (ingest or remove), $source (its name), $report (JSON).
INSERT INTO corpus_versions
VALUES ($version, now()::TIMESTAMP, $what, $source, $report)
