-- Forget what the external scores of one source and split are about.
DROP TABLE IF EXISTS external_entries
