-- Delete the anchors of an interrupted mining.
-- Parameters: $mining.
DELETE FROM mined_anchors WHERE mining_key = $mining
