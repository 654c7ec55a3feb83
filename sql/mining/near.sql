-- name: texts
-- The texts of candidates that are near the positive of their anchor.
-- Parameters: $files, $margin (a candidate that this relative margin cuts is near).
-- Rows: record of the anchor, and text; once each.
SELECT DISTINCT anchors.record_key, chunks.text_hash
FROM read_parquet($files) AS found
JOIN stored_sections AS anchors ON anchors.section_key = found.anchor_section_key
JOIN chunks ON chunks.section_key = found.negative_section_key
WHERE
    found.rank > 0
    AND cut_by(
        found.score, found.positive_score, NULL, $margin, NULL, NULL
    ) IS NOT NULL
ORDER BY ALL

-- name: counts
-- Count the anchors with $depth candidates that are all near, and the anchors with an unranked
-- positive.
-- Parameters: $files, $margin, $depth.
-- Rows: one.
SELECT
    count(*) FILTER (near = candidates AND near >= $depth) AS "full",
    count(*) FILTER (unranked) AS unranked
FROM (
    SELECT
        bool_or(positive_rank IS NULL) AS unranked,
        count(*) FILTER (rank > 0) AS candidates,
        count(*) FILTER (
            rank > 0
            AND cut_by(score, positive_score, NULL, $margin, NULL, NULL) IS NOT NULL
        ) AS near
    FROM read_parquet($files)
    GROUP BY anchor_section_key
)
