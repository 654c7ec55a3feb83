-- The anchors of minings, in the order in which they are written, and how many negatives each has.
-- Parameters: $minings (keys).
-- Rows: by source and section_key.
SELECT
    mined_anchors.mining_key,
    mined_anchors.anchor_section_key AS section_key,
    mined_anchors.candidates
FROM mined_anchors
JOIN minings ON minings.mining_key = mined_anchors.mining_key
JOIN sources ON sources.source_id = minings.source_id
WHERE list_contains($minings::INTEGER[], mined_anchors.mining_key)
ORDER BY sources.name, mined_anchors.anchor_section_key, mined_anchors.mining_key
