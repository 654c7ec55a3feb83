-- Delete an interrupted mining.
-- Parameters: $mining.
DELETE FROM minings WHERE mining_key = $mining AND finished_at IS NULL
