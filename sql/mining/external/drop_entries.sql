-- Forget what the given scores of one source and split are about.
DROP TABLE IF EXISTS given_entries
