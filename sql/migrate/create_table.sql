-- The record of applied migrations, in every file of ours.
CREATE TABLE IF NOT EXISTS schema_migrations (
    number INTEGER NOT NULL,
    name VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,
    checksum VARCHAR NOT NULL,
    applied_at TIMESTAMP NOT NULL
)
