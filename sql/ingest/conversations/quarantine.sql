-- Append set_aside (Arrow): rows that a converter could not read.
-- Parameters: $source (name), $version.
INSERT INTO quarantine
SELECT $source, $version, "row", skip, quarantined
FROM set_aside
