-- name: texts
-- The texts of candidates that are near the positive of their anchor.
-- Parameters: $files, $margin (what the relative margin of a policy cuts is near).
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
-- How many anchors have as many candidates as were kept, all near, and how many a positive that
-- was not ranked.
-- Parameters: $files, $margin, $depth (1 where no depth was asked for).
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
