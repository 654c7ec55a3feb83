-- Delete the negatives of an interrupted mining.
-- Parameters: $mining.
DELETE FROM mined_negatives WHERE mining_key = $mining
