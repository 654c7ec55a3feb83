-- Note an applied migration.
-- Parameters: $number, $name, $kind, $checksum (SHA-256 of its text).
INSERT INTO schema_migrations
VALUES ($number, $name, $kind, $checksum, now()::TIMESTAMP)
