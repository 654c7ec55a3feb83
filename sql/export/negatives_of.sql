-- The mined negatives of requests (Arrow: place, mining_key, section_key), the hardest first.
-- Parameters: $negatives (how many an anchor may have; NULL for all).
-- Rows: by place and rank.
SELECT
    requests.place,
    mined_negatives.negative_section_key AS section_key,
    CASE WHEN isfinite(mined_negatives.score) THEN mined_negatives.score END AS score
FROM requests
JOIN mined_negatives
    ON mined_negatives.mining_key = requests.mining_key
    AND mined_negatives.anchor_section_key = requests.section_key
WHERE mined_negatives.rank <= coalesce($negatives, mined_negatives.rank)
ORDER BY requests.place, mined_negatives.rank
