-- name: pairs
-- The last label of each pair of a table, with the label before. Arrow: new_labels (row, label and
-- one column of each side).
-- Parameters: $version (the newest).
-- Rows: in any order.
SELECT found.*, previous.label AS before
FROM (
    SELECT
        coalesce(
            text_side(coalesce(anchor_hash, md5_number_lower(anchor)::UBIGINT)),
            md5_number_lower(anchor_id)::UBIGINT
        ) AS anchor,
        coalesce(
            text_side(coalesce(text_hash, md5_number_lower("text")::UBIGINT)),
            md5_number_lower(document_id)::UBIGINT
        ) AS document,
        max_by({'label': label}, "row").label AS label
    FROM new_labels
    GROUP BY ALL
) AS found
LEFT JOIN (
    SELECT anchor, document, newest_label(label, added_version) AS label
    FROM labels
    WHERE added_version <= $version
    GROUP BY ALL
) AS previous ON previous.anchor = found.anchor AND previous.document = found.document

-- name: append
-- Store labels (Arrow new_labels: anchor, document, label).
-- Parameters: $annotator, $version.
-- Rows: by pair.
INSERT INTO labels
SELECT anchor, document, label, $annotator, $version
FROM new_labels
ORDER BY anchor, document

-- name: keep_ids
-- Keep the ids of labels (Arrow new_ids: id) that no record has.
INSERT INTO label_ids
SELECT DISTINCT md5_number_lower(id) AS hash, id
FROM new_ids
WHERE
    id IS NOT NULL
    AND md5_number_lower(id) NOT IN (SELECT id_hash FROM records UNION ALL SELECT hash FROM label_ids)
ORDER BY id

-- name: counts
-- Count the labels of a version: all pairs, pairs with a side that no record has, and pairs whose
-- sides share no split.
-- Parameters: $version.
-- Rows: by meaning.
WITH newest AS (
    SELECT anchor, document, newest_label(label, added_version) AS label
    FROM labels
    WHERE added_version <= $version
    GROUP BY ALL
    HAVING label IS NOT NULL
),

places AS (
    SELECT
        side,
        list(splits.split) AS splits,
        bool_or(splits.split = 'every') AS everywhere
    FROM (
        SELECT DISTINCT
            chunks.record_key, unnest([text_side(chunks.text_hash), records.id_hash]) AS side
        FROM chunks
        JOIN records ON records.record_key = chunks.record_key
        WHERE is_live(records.added_version, records.removed_version, $version)
    ) AS sides
    SEMI JOIN (SELECT anchor AS side FROM newest UNION ALL SELECT document FROM newest) AS named
        ON named.side = sides.side
    LEFT JOIN splits ON splits.record_key = sides.record_key
    GROUP BY side
)

SELECT
    CASE
        WHEN label >= 1 THEN 'positive' WHEN label > 0 THEN 'ambiguous' ELSE 'negative'
    END AS meaning,
    count(*) AS pairs,
    count(*) FILTER (anchors.splits IS NULL OR others.splits IS NULL) AS gone,
    count(*) FILTER (
        NOT (
            list_has_any(anchors.splits, others.splits)
            OR coalesce(anchors.everywhere, FALSE) OR coalesce(others.everywhere, FALSE)
        )
    ) AS across
FROM newest
LEFT JOIN places AS anchors ON anchors.side = newest.anchor
LEFT JOIN places AS others ON others.side = newest.document
GROUP BY meaning
ORDER BY meaning

-- name: kept_apart
-- The pairs of texts that labels call positive or ambiguous.
-- Parameters: $version.
-- Rows: in any order.
SELECT DISTINCT anchor_hash, text_hash
FROM labelled_pairs($version)
WHERE label > 0

-- name: sections
-- The same pairs as sections: an anchor, and a section that must not be its negative.
-- Parameters: $version.
-- Rows: by both.
SELECT DISTINCT anchor_section_key, negative_section_key
FROM labelled_pairs($version)
WHERE label > 0
ORDER BY ALL
