-- name: sources
-- Sources of the newest version with their counts.
-- Rows: by name.
SELECT
    sources.name, sources.kind, sources.uri, sources.trust, sources.defaults, sources.weight,
    coalesce(source_counts.records, 0) AS records,
    coalesce(source_counts.sections, 0) AS sections,
    coalesce(source_counts.chunks, 0) AS chunks,
    coalesce(source_counts.tokens, 0) AS tokens
FROM sources
LEFT JOIN source_counts ON source_counts.source = sources.name
WHERE sources.removed_version IS NULL
ORDER BY sources.name

-- name: splits
-- Records by source and split.
-- Rows: by source, splits in their usual order.
SELECT source, split, records
FROM split_counts
ORDER BY source, list_position(['train', 'validation', 'test'], split)

-- name: capacity
-- Estimates of samples by source and split, from counts of records, chunks and recipes alone.
-- Parameters: $version, $max_tokens (of a window); of_sources (Arrow: source, graded, how many
-- triplets and texts recipes it has, and whether long_sections are drawn by one more).
-- Rows: by source, splits in their usual order.
WITH labelled AS (
    SELECT
        live_records.source, live_records.split, count(*)::HUGEINT AS positives,
        count(DISTINCT held.anchor)::HUGEINT AS queries
    FROM (
        SELECT anchor, document, newest_label(label, added_version) AS label
        FROM labels
        GROUP BY anchor, document
    ) AS held
    JOIN live_records ON live_records.id_hash = held.anchor
    JOIN sources ON sources.source_id = live_records.source_id
    JOIN records AS documents
        ON documents.id_hash = held.document AND documents.source_id = sources.documents_id
    WHERE held.label >= 1 AND documents.removed_version IS NULL
    GROUP BY live_records.source, live_records.split
),

collections AS (
    SELECT sources.name AS source, count(documents.record_key)::HUGEINT AS documents
    FROM sources
    JOIN records AS documents ON documents.source_id = sources.documents_id
    WHERE documents.removed_version IS NULL
    GROUP BY sources.name
)

SELECT
    counts.source,
    counts.split,
    records::BIGINT AS records,
    (recipes + (long_records > 0)::INTEGER)::BIGINT AS triplet_recipes,
    least(CASE
        WHEN documents IS NOT NULL THEN recipes * coalesce(positives, 0) * (documents - 1)
        ELSE (recipes * records + long_records) * (records - 1)
    END, 9223372036854775807)::BIGINT AS triplets,
    CASE
        WHEN documents IS NOT NULL THEN recipes * coalesce(queries, 0) * 4
        WHEN records < 2 THEN 0
        ELSE (recipes * records + long_records) * 4
    END::BIGINT AS effective_triplets,
    CASE
        WHEN documents IS NOT NULL
            THEN least(recipes * coalesce(queries, 0) * documents, 9223372036854775807)
        WHEN graded THEN records
        ELSE least((recipes * records + long_records) * records, 9223372036854775807)
    END::BIGINT AS pairs,
    CASE WHEN text_recipes > 0 THEN text_recipes * records ELSE chunks END::BIGINT AS texts
FROM (
    SELECT
        sources.name AS source,
        splits.split,
        count(*)::HUGEINT AS records,
        any_value(of_sources.graded) AS graded,
        any_value(of_sources.triplets) AS recipes,
        any_value(of_sources.texts) AS text_recipes,
        count(*) FILTER (cut.is_long AND of_sources.long_sections) AS long_records,
        coalesce(sum(cut.chunks), 0) AS chunks
    FROM records
    JOIN sources ON sources.source_id = records.source_id
    JOIN of_sources ON of_sources.source = sources.name
    LEFT JOIN splits ON splits.record_key = records.record_key
    -- The number of texts of every record, and whether one is longer than a window.
    LEFT JOIN (
        SELECT
            sections.record_key,
            bool_or(sections.token_count > $max_tokens) AS is_long,
            count(chunks.chunk_key) AS chunks
        FROM stored_sections AS sections
        JOIN records ON records.record_key = sections.record_key
        JOIN sources ON sources.source_id = records.source_id
        LEFT JOIN chunks ON chunks.section_key = sections.section_key
        WHERE
            sections.role <> 'rejected'
            AND NOT (sources.defaults = 'documents' AND sections.role = 'anchor')
        GROUP BY sections.record_key
    ) AS cut ON cut.record_key = records.record_key
    WHERE is_live(records.added_version, records.removed_version, $version)
    GROUP BY sources.name, splits.split
) AS counts
LEFT JOIN collections USING (source)
LEFT JOIN labelled USING (source, split)
ORDER BY counts.source, list_position(['train', 'validation', 'test'], counts.split)

-- name: collections
-- The documents of every collection with and without a label, queries by split, labels by value.
-- Rows: by source and part; splits in their usual order, the greatest label first.
WITH of_queries AS (
    SELECT live_records.source, live_records.split, live_records.id_hash, sources.documents_id
    FROM live_records
    JOIN sources ON sources.source_id = live_records.source_id
    WHERE sources.documents_id IS NOT NULL
),

held AS (
    SELECT
        of_queries.source, of_queries.documents_id, labels.document,
        newest_label(labels.label, labels.added_version) AS label
    FROM labels
    JOIN of_queries ON of_queries.id_hash = labels.anchor
    GROUP BY of_queries.source, of_queries.documents_id, labels.anchor, labels.document
    HAVING label IS NOT NULL
),

labelled AS (
    SELECT held.source, count(DISTINCT held.document) AS documents
    FROM held
    JOIN records
        ON records.id_hash = held.document AND records.source_id = held.documents_id
    WHERE records.removed_version IS NULL
    GROUP BY held.source
),

documents AS (
    SELECT sources.name AS source, count(records.record_key) AS documents
    FROM sources
    LEFT JOIN records
        ON records.source_id = sources.documents_id AND records.removed_version IS NULL
    WHERE sources.documents_id IS NOT NULL AND sources.removed_version IS NULL
    GROUP BY sources.name
),

parts AS (
    SELECT
        documents.source, 'documents' AS part, 'with a label' AS value,
        coalesce(labelled.documents, 0) AS "count", -1 AS place
    FROM documents
    LEFT JOIN labelled ON labelled.source = documents.source
    UNION ALL
    SELECT
        documents.source, 'documents', 'without a label',
        documents.documents - coalesce(labelled.documents, 0), 0
    FROM documents
    LEFT JOIN labelled ON labelled.source = documents.source
    UNION ALL
    SELECT
        source, 'queries', coalesce(split, 'none'), count(*),
        coalesce(list_position(['train', 'validation', 'test'], split), 4)
    FROM of_queries
    GROUP BY source, split
    UNION ALL
    SELECT source, 'labels', printf('%g', label), count(*), -label
    FROM held
    GROUP BY source, label
)

SELECT source, part, value, "count"
FROM parts
ORDER BY source, list_position(['documents', 'queries', 'labels'], part), place

-- name: records_by_source
-- Live records of every source.
-- Rows: by name.
SELECT sources.name AS source, count(records.record_key) AS records
FROM sources
LEFT JOIN records ON records.source_id = sources.source_id AND records.removed_version IS NULL
WHERE sources.removed_version IS NULL
GROUP BY sources.name
ORDER BY sources.name

-- name: first_texts
-- The first sources with their live records, and the text that each begins with.
-- Rows: by name.
SELECT
    of_source.name AS source,
    of_source.records,
    (
        SELECT left(arg_min(sections.text, sections.position), 200)
        FROM sections
        WHERE sections.record_key = of_source.first
    ) AS text
FROM (
    SELECT
        sources.name, count(records.record_key) AS records, min(records.record_key) AS first
    FROM sources
    LEFT JOIN records
        ON records.source_id = sources.source_id AND records.removed_version IS NULL
    WHERE sources.removed_version IS NULL
    GROUP BY sources.name
    ORDER BY sources.name
    LIMIT 20
) AS of_source
ORDER BY of_source.name

-- name: show
-- The sections of the first live records of a source, or of all, with the hashes of their chunks.
-- Parameters: $source (NULL for all), $split (NULL for all), $limit (records).
-- Rows: by record and position.
SELECT
    shown.record_id, shown.split, sections.role, sections.heading, sections.token_count AS tokens,
    sections.text, (
        SELECT list(text_hash ORDER BY chunk_key)
        FROM chunks
        WHERE chunks.section_key = sections.section_key
    ) AS chunks
FROM (
    SELECT record_key, record_id, split
    FROM live_records
    WHERE
        source = coalesce($source, source)
        AND ($split IS NULL OR in_split(split, $split))
    ORDER BY record_key
    LIMIT $limit
) AS shown
JOIN sections ON sections.record_key = shown.record_key
ORDER BY shown.record_key, sections.position

-- name: bytes
-- About how many bytes of the file indexes take: the blocks that they fill.
-- Rows: one, or none where there are none.
SELECT
    what,
    count(DISTINCT block_id) * (
        SELECT block_size
        FROM pragma_database_size()
        WHERE database_name = current_database()
    ) AS size
FROM (
    SELECT 'indexes' AS what, block_id FROM pragma_storage_info('index_documents')
    UNION ALL SELECT 'indexes' AS what, block_id FROM pragma_storage_info('index_postings')
    UNION ALL SELECT 'indexes' AS what, block_id FROM pragma_storage_info('index_terms')
)
WHERE block_id >= 0
GROUP BY what

-- name: first
-- The first rows of a user's statement, each as a text of JSON.
-- Parameters: $query, $rows.
-- Rows: in the statement's order.
SELECT to_json(answer)::VARCHAR AS "row" FROM query($query) AS answer LIMIT $rows
