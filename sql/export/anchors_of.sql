-- The anchors of requests (Arrow: place, mining_key, section_key): text, and what mining found.
-- Rows: by place.
SELECT
    records.record_id,
    sections.position,
    sections.text,
    mined_anchors.outcome,
    CASE WHEN isfinite(mined_anchors.positive_score) THEN mined_anchors.positive_score END
        AS positive_score
FROM requests
JOIN sections ON sections.section_key = requests.section_key
JOIN records ON records.record_key = sections.record_key
JOIN mined_anchors
    ON mined_anchors.mining_key = requests.mining_key
    AND mined_anchors.anchor_section_key = requests.section_key
ORDER BY requests.place
