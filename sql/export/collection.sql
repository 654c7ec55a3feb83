-- name: sources
-- Return the sources of a version, with the source of documents of each collection.
-- Parameters: $version.
-- Rows: by name; documents is NULL for a source without one. Sources of documents are excluded.
SELECT sources.name AS source, documents.name AS documents
FROM sources
LEFT JOIN sources AS documents ON documents.source_id = sources.documents_id
WHERE
    is_live(sources.added_version, sources.removed_version, $version)
    AND sources.source_id NOT IN (
        SELECT documents_id FROM sources
        WHERE documents_id IS NOT NULL AND is_live(added_version, removed_version, $version)
    )
ORDER BY sources.name

-- name: keys
-- Return the records of sources in a split, or in all.
-- Parameters: $sources (names), $split (NULL for all).
-- Rows: by source and record_key.
SELECT record_key
FROM live_records
WHERE list_contains($sources, source) AND ($split IS NULL OR in_split(split, $split))
ORDER BY source, record_key

-- name: texts
-- Return records (Arrow wanted: record_key) with their texts; a query's text is its first anchor.
-- Rows: by source and record_key.
SELECT
    live_records.record_id, live_records.source, live_records.meta,
    coalesce(
        arg_min(sections.text, sections.position) FILTER (WHERE sections.role = 'anchor'),
        string_agg(sections.text, E'\n\n' ORDER BY sections.position)
    ) AS text
FROM wanted
JOIN live_records ON live_records.record_key = wanted.record_key
JOIN sections ON sections.record_key = wanted.record_key
GROUP BY live_records.source, live_records.record_key, live_records.record_id, live_records.meta
ORDER BY live_records.source, live_records.record_key

-- name: labels
-- Return the current labels between queries of sources and their documents, also for documents
-- that are not in the corpus.
-- Parameters: $sources (names), $split (NULL for all), $version (the newest).
-- Rows: by query and document.
WITH queries AS (
    SELECT
        live_records.record_key, live_records.record_id, live_records.id_hash, live_records.split,
        sources.documents_id
    FROM live_records
    JOIN sources ON sources.source_id = live_records.source_id
    WHERE
        list_contains($sources, live_records.source)
        AND ($split IS NULL OR in_split(live_records.split, $split))
),
found AS (
    SELECT queries.record_key, documents.record_id AS document, max(pairs.label) AS label
    FROM labelled_pairs($version) AS pairs
    JOIN stored_sections AS anchors ON anchors.section_key = pairs.anchor_section_key
    JOIN queries ON queries.record_key = anchors.record_key
    JOIN stored_sections AS others ON others.section_key = pairs.negative_section_key
    JOIN live_records AS documents
        ON documents.record_key = others.record_key AND documents.source_id = queries.documents_id
    WHERE anchors.role = 'anchor' AND pairs.label IS NOT NULL
    GROUP BY queries.record_key, documents.record_id
    UNION ALL
    SELECT queries.record_key, label_ids.id, newest_label(labels.label, labels.added_version)
    FROM labels
    JOIN queries ON queries.id_hash = labels.anchor
    JOIN label_ids ON label_ids.hash = labels.document
    WHERE labels.document NOT IN (SELECT id_hash FROM live_records)
    GROUP BY queries.record_key, label_ids.id
)
SELECT
    queries.split, queries.record_id AS query, found.document,
    starts_with(found.document, documents.name || '/') AS is_own, found.label
FROM found
JOIN queries ON queries.record_key = found.record_key
JOIN sources AS documents ON documents.source_id = queries.documents_id
WHERE found.label IS NOT NULL
ORDER BY found.record_key, found.document
