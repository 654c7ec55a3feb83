-- Append what became of anchors (Arrow new_anchors, columns as the table's but for the key).
-- Parameters: $mining.
INSERT INTO mined_anchors
SELECT
    $mining, anchor_section_key, candidates, outcome, examined, positive_score, positive_rank
FROM new_anchors
