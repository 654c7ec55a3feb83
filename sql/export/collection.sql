-- name: documents
-- The documents of a collection as they came: the title is kept beside the text that it begins.
-- Parameters: $documents (name of their source), $version.
-- Rows: in the order in which they were read.
SELECT
    substring(records.record_id, length($documents) + 2) AS id,
    coalesce(records.meta['title'], '') AS title,
    CASE
        WHEN sections.text = records.meta['title'] THEN ''
        WHEN starts_with(sections.text, records.meta['title'] || ' ')
            THEN substring(sections.text, length(records.meta['title']) + 2)
        ELSE sections.text
    END AS text,
    map_from_entries(
        list_filter(map_entries(records.meta), LAMBDA entry : entry.key <> 'title')
    ) AS metadata
FROM sections
JOIN records ON records.record_key = sections.record_key
JOIN sources ON sources.source_id = records.source_id
WHERE
    sources.name = $documents AND sections.role = 'context'
    AND is_live(records.added_version, records.removed_version, $version)
ORDER BY sections.section_key

-- name: queries
-- The queries of a collection as they came, with their split.
-- Parameters: $source, $split (NULL for all), $version.
-- Rows: in the order in which they were read.
SELECT
    substring(records.record_id, length($source) + 2) AS id, sections.text, splits.split
FROM sections
JOIN records ON records.record_key = sections.record_key
JOIN sources ON sources.source_id = records.source_id
LEFT JOIN splits ON splits.record_key = records.record_key
WHERE
    sources.name = $source AND sections.role = 'anchor'
    AND coalesce(in_split(splits.split, $split), $split IS NULL)
    AND is_live(records.added_version, records.removed_version, $version)
ORDER BY sections.section_key

-- name: labels
-- The labels of a collection between ids, as they came.
-- Parameters: $source, $split (NULL for all).
-- Rows: by split, query and document.
SELECT qrels.split, qrels.query_id, qrels.document_id, qrels.label
FROM qrels
WHERE qrels.source = $source AND coalesce(in_split(qrels.split, $split), $split IS NULL)
ORDER BY ALL

-- name: others
-- How many labels of a split say anything but 1.
-- Parameters: $source, $split.
SELECT count(*)
FROM qrels
WHERE source = $source AND in_split(split, $split) AND label <> 1
