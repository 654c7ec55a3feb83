-- name: pairs
-- The verdicts of a table (Arrow new_verdicts: row, anchor, text, anchor_hash, text_hash, verdict):
-- of each pair the last, with what held before.
-- Parameters: $version (the newest).
-- Rows: in any order.
SELECT found.*, said.verdict AS before
FROM (
    SELECT
        coalesce(anchor_hash, md5_number_lower(anchor))::UBIGINT AS anchor_hash,
        coalesce(text_hash, md5_number_lower(text))::UBIGINT AS text_hash,
        arg_max(verdict, "row") AS verdict
    FROM new_verdicts
    GROUP BY ALL
) AS found
LEFT JOIN verdicts_at($version) AS said
    ON said.anchor_hash = found.anchor_hash AND said.text_hash = found.text_hash

-- name: append
-- Store verdicts (Arrow new_verdicts: anchor_hash, text_hash, verdict).
-- Parameters: $annotator, $version.
-- Rows: by pair.
INSERT INTO pair_verdicts
SELECT anchor_hash, text_hash, verdict, $annotator, $version
FROM new_verdicts
ORDER BY anchor_hash, text_hash

-- name: counts
-- The verdicts that hold at a version, and how many are of texts that no record has, and (positive
-- ones) of two texts that no split has both of.
-- Parameters: $version.
-- Rows: by verdict.
WITH texts AS (
    SELECT DISTINCT chunks.text_hash, splits.split
    FROM chunks
    SEMI JOIN (
        SELECT anchor_hash AS text_hash FROM pair_verdicts
        UNION ALL SELECT text_hash FROM pair_verdicts
    ) AS named ON named.text_hash = chunks.text_hash
    JOIN records ON records.record_key = chunks.record_key
    LEFT JOIN splits ON splits.record_key = chunks.record_key
    WHERE is_live(records.added_version, records.removed_version, $version)
),

places AS (
    SELECT text_hash, list(split) AS splits
    FROM texts
    GROUP BY text_hash
)

SELECT
    said.verdict,
    count(*) AS pairs,
    count(*) FILTER (anchors.splits IS NULL OR others.splits IS NULL) AS gone,
    count(*) FILTER (NOT list_has_any(anchors.splits, others.splits)) AS across
FROM verdicts_at($version) AS said
LEFT JOIN places AS anchors ON anchors.text_hash = said.anchor_hash
LEFT JOIN places AS others ON others.text_hash = said.text_hash
GROUP BY said.verdict
ORDER BY said.verdict

-- name: kept_apart
-- The pairs of texts that a verdict calls positive or ambiguous.
-- Parameters: $version.
-- Rows: in any order.
SELECT anchor_hash, text_hash
FROM verdicts_at($version)
WHERE verdict <> 'negative'

-- name: sections
-- The same as sections of anchors and of what is no negative of theirs.
-- Parameters: $version.
-- Rows: by both.
SELECT anchor_section_key, negative_section_key
FROM relabelled_sections($version)
ORDER BY ALL
