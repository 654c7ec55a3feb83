-- name: stage
-- The chunks of several pools in a table, with the columns that they need. Joining them once halves
-- the time to open a sampler. Answers come from all chunks, samples from chunks with drawn = TRUE.
-- Parameters: $split, $version.
CREATE TEMP TABLE staged_chunks AS
SELECT slot.chunk_key, slot_columns, TRUE AS drawn
FROM chunks_without_text(NULL, $split, $version) AS slot
LEFT JOIN section_facts USING (section_key)

-- name: facts
-- Values that conditions need from section texts, computed once for all windows of a section.
-- Parameters: $split, $version, $sources (names; NULL for all), $low, $high (section keys).
-- Rows: by section_key.
SELECT slot.section_key, slot_columns
FROM (
    SELECT
        sections.section_key, sections.position, sections.role, sections.heading, sections.text,
        sections.token_count, records.record_id, records.date, records.group_key,
        records.taxonomy, records.meta, records.trust, records.created_at, records.updated_at,
        records.label, sources.name AS source
    FROM sections
    JOIN records ON records.record_key = sections.record_key
    JOIN splits ON splits.record_key = sections.record_key
    JOIN sources ON sources.source_id = records.source_id
    WHERE
        in_split(splits.split, $split)
        AND is_live(records.added_version, records.removed_version, $version)
        AND list_contains(coalesce($sources::VARCHAR[], [sources.name]), sources.name)
        AND sections.section_key BETWEEN $low AND $high
) AS slot
ORDER BY slot.section_key

-- name: text_portions
-- Ranges of sections whose long texts have at most about $most characters, with the longest text.
-- Short texts do not count, because a vector of them stays below that bound.
-- Parameters: $split, $version, $sources (names; NULL for all), $most, $long (characters).
-- Rows: by low.
SELECT min(section_key) AS low, max(section_key) AS high, max(size)::BIGINT AS longest
FROM (
    SELECT
        section_key, size,
        sum(if(size > $long, size, 0)) OVER (ORDER BY section_key) // $most AS portion
    FROM (
        SELECT chunks.section_key, max(chunks.start + chunks.length) AS size
        FROM chunks_without_text(NULL, $split, $version) AS slot
        JOIN chunks USING (chunk_key)
        WHERE list_contains(coalesce($sources::VARCHAR[], [slot.source]), slot.source)
        GROUP BY chunks.section_key
    )
)
GROUP BY portion
ORDER BY low

-- name: ranges
-- Ranges of the sections of a source, with the keys of their records.
-- Parameters: $source (NULL for all), $most (sections of a range).
-- Rows: by low.
WITH bounds AS (
    SELECT min(record_key) AS "first", max(record_key) AS "last"
    FROM records
    JOIN sources ON sources.source_id = records.source_id
    WHERE sources.name = coalesce($source, sources.name)
)

SELECT
    min(section_key) AS low, max(section_key) AS high,
    min(record_key) AS "first", max(record_key) AS "last"
FROM stored_sections
WHERE record_key BETWEEN (SELECT "first" FROM bounds) AND (SELECT "last" FROM bounds)
GROUP BY section_key // $most
ORDER BY low

-- name: plain
-- The chunks of a source in a split, of anchors and contexts, with the columns of their lists. A
-- range of them at a time: joined all at once, ten million records need more than the usual memory.
-- Parameters: $split, $version, $source, $low, $high (section keys, both included), $first, $last
-- (keys of their records).
-- Rows: by record_key and chunk_key.
SELECT
    record_key, chunk_key, text_hash, family, question, section_key, position,
    role = 'anchor' AS is_anchor, coalesce(label > 0, TRUE) AS answers, added_version, id_hash
FROM chunks_without_text($source, $split, $version)
WHERE
    role IN ('anchor', 'context')
    AND section_key BETWEEN $low AND $high AND record_key BETWEEN $first AND $last
ORDER BY record_key, chunk_key

-- name: text_anchors
-- The chunks from which a sampler draws texts.
-- Rows: ordered by version and id hash of the record.
SELECT record_key, chunk_key, text_hash, section_key, position, added_version, id_hash
FROM eligible
ORDER BY added_version, id_hash, record_key, chunk_key

-- name: of_sources
-- A list of a pool for many sources at once: the rows of one statement for each source.
-- The caller replaces found_list by that statement, and found_order by its order.
-- Parameters: $sources (names).
-- Rows: by number (of the source), and within a source as in the statement.
SELECT asked.number, found.*
FROM (
    SELECT
        unnest(range(len($sources))) AS number, unnest($sources) AS source
) AS asked, LATERAL (FROM found_list) AS found
ORDER BY number, found_order

-- name: staged
-- The number of staged chunks of each source.
-- Rows: in any order.
SELECT source, count(*) AS chunks
FROM staged_chunks
GROUP BY source

-- name: keep_texts
-- Mark the staged chunks of other texts as not drawn (Arrow kept_texts: text_hash).
UPDATE staged_chunks SET drawn = FALSE
WHERE NOT EXISTS (SELECT 1 FROM kept_texts WHERE kept_texts.text_hash = staged_chunks.text_hash)

-- name: unstage
-- Drop the staged table.
DROP TABLE staged_chunks

-- name: anchors
-- The chunks from which a sampler draws anchors.
-- Rows: ordered by version and id hash of the record.
SELECT record_key, chunk_key, text_hash, family, question, section_key, position, anchor_names,
    added_version, id_hash
FROM eligible
ORDER BY added_version, id_hash, record_key, chunk_key

-- name: negatives
-- The chunks from which a sampler draws negatives.
-- Rows: ordered by bin, version and id hash of the record.
SELECT record_key, chunk_key, text_hash, family, section_key, negative_names, added_version, id_hash
FROM negatives
ORDER BY negative_order

-- name: pairs
-- The bins that each class may, or must not, draw from.
-- Rows: by class and bin.
SELECT class, bin
FROM class_bins
ORDER BY class, bin

-- name: positives
-- The chunks from which a sampler draws positives.
-- Rows: by record_key (the anchor's), then ordered by their own record and chunk.
SELECT record_key, chunk_key, text_hash, positive_names, added_version, id_hash
FROM positives
ORDER BY record_key, added_version, id_hash, chunk_key

-- name: illegal
-- Texts that a family must not draw although other families have them. A text of one family needs no
-- entry. Rows with is_answer have known answers to the questions of anchors.
-- Rows: in any order.
SELECT FALSE AS is_answer, family, 0::UBIGINT AS question, text_hash
FROM own_texts
JOIN texts USING (text_hash)
JOIN (SELECT DISTINCT family FROM anchors) AS asked USING (family)
WHERE sole IS DISTINCT FROM family
UNION ALL
SELECT TRUE AS is_answer, 0 AS family, question, text_hash
FROM known
JOIN (SELECT DISTINCT question FROM anchors) AS asked USING (question)

-- name: known_swapped
-- Anchor texts of positives that several families have.
-- Rows: in any order.
SELECT question, text_hash
FROM known_swapped
JOIN (SELECT DISTINCT question FROM positives) AS asked USING (question)

-- name: unpaired
-- Positives of a record that an anchor text must not take because of labels.
-- Rows: in any order.
SELECT DISTINCT said.record_key, anchors.text_hash AS anchor_hash, said.text_hash
FROM anchors
JOIN said USING (record_key)
JOIN positives ON positives.record_key = said.record_key AND positives.text_hash = said.text_hash
EXCEPT SELECT record_key, anchor_hash, text_hash
FROM paired

-- name: inconsistent
-- Positives of a record that an anchor text must not take because of a low rank.
-- Rows: in any order.
SELECT DISTINCT anchors.record_key, anchors.text_hash AS anchor_hash, positives.text_hash
FROM anchors
JOIN positives USING (record_key)
EXCEPT SELECT record_key, anchor_hash, text_hash
FROM consistent

-- name: consistent
-- The pairs of anchor section and positive section that pass the consistency filter.
-- Rows: in any order.
SELECT DISTINCT anchor_section_key, positive_section_key
FROM offered_pairs
JOIN consistent USING (record_key, anchor_hash, text_hash)

-- name: filtered
-- The number of pairs and of consistent pairs; the same for the records of anchors.
-- Rows: one.
SELECT
    (SELECT count(*) FROM (SELECT DISTINCT record_key, anchor_hash, text_hash FROM offered_pairs))
        AS pairs,
    (SELECT count(*) FROM consistent) AS consistent_pairs,
    (SELECT count(DISTINCT record_key) FROM offered_pairs) AS anchors,
    (SELECT count(DISTINCT record_key) FROM consistent) AS consistent_anchors

-- name: labelled
-- Texts with a label above 0 for a family, and all texts that share a writing with them.
-- Rows: in any order.
SELECT DISTINCT family, text_hash
FROM labelled
WHERE label > 0

-- name: left_out
-- The excluded anchors with the reason.
-- Rows: ordered by version and id hash of the record.
SELECT record_key, chunk_key, reason, added_version, id_hash
FROM judged
WHERE reason IS NOT NULL
ORDER BY added_version, id_hash, record_key, chunk_key

-- name: counts
-- The number of records (or chunks) of a source and split by their outcome in a pool.
-- Parameters: $split, $version, $source.
-- Rows: by reason; NULL for anchors in the pool.
SELECT reason, count(*) AS anchors
FROM (
    SELECT CASE WHEN count(*) > count(reason) THEN NULL ELSE arg_min(reason, chunk_key) END AS reason
    FROM judged GROUP BY unit_key
    UNION ALL SELECT 'no anchor' AS reason
    FROM (SELECT DISTINCT record_key FROM chunks_of($source, $split, $version))
    LEFT JOIN (SELECT DISTINCT record_key, TRUE AS anchored FROM anchors) AS those
        USING (record_key)
    WHERE anchored IS NULL
)
GROUP BY reason
ORDER BY reason

-- name: mined_anchors
-- The anchor sections of the pool, for mining.
-- Rows: by section_key and class.
SELECT DISTINCT record_key, section_key, family, question, class_name
FROM eligible
ORDER BY section_key, class

-- name: mined_documents
-- The sections that the negative selector takes, for mining.
-- Rows: by section_key and bin.
SELECT DISTINCT record_key, section_key, bin_name
FROM negatives
ORDER BY section_key, bin

-- name: mined_positives
-- The sections of positives by the record of the anchor, for mining.
-- Rows: by record_key (the anchor's) and section_key.
SELECT DISTINCT record_key, section_key
FROM positives
ORDER BY record_key, section_key

-- name: sizes
-- The number of classes and bins that an sql() strategy compares.
SELECT
    (SELECT count(DISTINCT class) FROM anchors) AS classes,
    (SELECT count(DISTINCT bin) FROM negatives) AS bins

-- name: labels
-- The sources with labels at a version, and whether some labels are neither 0 nor 1. A row without a
-- source shows that labels of pairs exist.
-- Parameters: $version.
-- Rows: by source.
SELECT sources.name AS source, bool_or(records.label NOT IN (0, 1)) AS graded
FROM records
JOIN sources ON sources.source_id = records.source_id
WHERE
    records.label IS NOT NULL
    AND is_live(records.added_version, records.removed_version, $version)
GROUP BY sources.name
UNION ALL
SELECT NULL AS source, FALSE AS graded
WHERE EXISTS (SELECT 1 FROM labels WHERE added_version <= $version)
ORDER BY source

-- name: documents
-- The sources of queries, each with the source of its documents.
-- Parameters: $version.
-- Rows: by source.
SELECT sources.name AS source, documents.name AS documents
FROM sources
JOIN sources AS documents ON documents.source_id = sources.documents_id
WHERE is_live(sources.added_version, sources.removed_version, $version)
ORDER BY sources.name

-- name: is_labelled
-- Whether a label names a record of a source.
-- Parameters: $source.
SELECT count(*) > 0
FROM records
JOIN sources ON sources.source_id = records.source_id
SEMI JOIN labels ON labels.anchor = records.id_hash
WHERE sources.name = $source
