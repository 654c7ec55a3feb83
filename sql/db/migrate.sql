-- name: applied
-- Applied migrations.
-- Rows: by number.
SELECT number, name, kind, checksum
FROM _internal.schema_migrations
ORDER BY number

-- name: create_table
-- The record of applied migrations, in every file of ours.
CREATE SCHEMA IF NOT EXISTS _internal;

CREATE TABLE IF NOT EXISTS _internal.schema_migrations (
    number INTEGER NOT NULL,
    name VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,
    checksum VARCHAR NOT NULL,
    applied_at TIMESTAMP NOT NULL
);

COMMENT ON TABLE _internal.schema_migrations IS 'Which migrations made this file what it is';

COMMENT ON COLUMN _internal.schema_migrations.number IS 'Counts from 1';

COMMENT ON COLUMN _internal.schema_migrations.name IS 'File name without its suffix';

COMMENT ON COLUMN _internal.schema_migrations.kind IS 'Of the file: corpus or state';

COMMENT ON COLUMN _internal.schema_migrations.checksum IS 'SHA-256 of its text';

COMMENT ON COLUMN _internal.schema_migrations.applied_at IS 'UTC'

-- name: record
-- Note an applied migration.
-- Parameters: $number, $name, $kind, $checksum (SHA-256 of its text).
INSERT INTO _internal.schema_migrations
VALUES ($number, $name, $kind, $checksum, now()::TIMESTAMP)
