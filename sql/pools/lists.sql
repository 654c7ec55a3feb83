-- name: stage
-- The chunks that several pools look at as a table of its own, with the columns they look at:
-- joined once, it halves the time to open a sampler. Who answers is looked for among all of them,
-- what is drawn among those that are drawn.
-- Parameters: $split, $version.
CREATE TEMP TABLE staged_chunks AS
SELECT slot.chunk_key, slot_columns, TRUE AS drawn
FROM chunks_of(NULL, $split, $version) AS slot
LEFT JOIN section_facts USING (section_key)

-- name: facts
-- What conditions ask of the texts of sections, worked out once however many windows these have.
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
-- Ranges of sections whose long texts have so many characters together, with the longest text.
-- Texts that are not long do not count: as many as DuckDB looks at together are no more than that.
-- Parameters: $split, $version, $sources (names; NULL for all), $most, $long (characters).
-- Rows: by low.
SELECT min(section_key) AS low, max(section_key) AS high, max(size)::BIGINT AS longest
FROM (
    SELECT
        section_key, size,
        sum(if(size > $long, size, 0)) OVER (ORDER BY section_key) // $most AS portion
    FROM (
        SELECT chunks.section_key, max(chunks.start + chunks.length) AS size
        FROM chunks_of(NULL, $split, $version) AS slot
        JOIN chunks USING (chunk_key)
        WHERE list_contains(coalesce($sources::VARCHAR[], [slot.source]), slot.source)
        GROUP BY chunks.section_key
    )
)
GROUP BY portion
ORDER BY low

-- name: plain
-- The chunks of a source in a split, of anchors and contexts, with the columns of their lists.
-- Parameters: $split, $version, $source.
-- Rows: in the order of their records' versions and hashes of ids.
SELECT
    record_key, chunk_key, text_hash, family, question, section_key, position,
    role = 'anchor' AS is_anchor, added_version, id_hash
FROM chunks_of($source, $split, $version)
WHERE role IN ('anchor', 'context')
ORDER BY added_version, id_hash, record_key, chunk_key

-- name: text_anchors
-- What a sampler draws texts from: the chunks of the pool.
-- Rows: in the order of their records' versions and hashes of ids.
SELECT record_key, chunk_key, text_hash, section_key, position, added_version, id_hash
FROM eligible
ORDER BY added_version, id_hash, record_key, chunk_key

-- name: of_sources
-- A list of a pool for many sources at once: for each what the statement of one yields.
-- That statement stands for found_list, and what it is ordered by for found_order.
-- Parameters: $sources (names).
-- Rows: by number (of the source), and within a source as of one.
SELECT asked.number, found.*
FROM (
    SELECT
        unnest(range(len($sources))) AS number, unnest($sources) AS source
) AS asked, LATERAL (FROM found_list) AS found
ORDER BY number, found_order

-- name: staged
-- How many chunks of the table of pools/stage each source has.
-- Rows: in any order.
SELECT source, count(*) AS chunks
FROM staged_chunks
GROUP BY source

-- name: keep_texts
-- Draw no chunks of the table of pools/stage of other texts than those given.
UPDATE staged_chunks SET drawn = FALSE
WHERE NOT EXISTS (SELECT 1 FROM kept_texts WHERE kept_texts.text_hash = staged_chunks.text_hash)

-- name: unstage
-- Drop the table of pools/stage.
DROP TABLE staged_chunks

-- name: anchors
-- What a sampler draws anchors from: the chunks of the pool.
-- Rows: in the order of their records' versions and hashes of ids.
SELECT record_key, chunk_key, text_hash, family, question, section_key, position, anchor_names,
    added_version, id_hash
FROM eligible
ORDER BY added_version, id_hash, record_key, chunk_key

-- name: negatives
-- What a sampler draws negatives from.
-- Rows: by bin, and in the order of their records' versions and hashes of ids.
SELECT record_key, chunk_key, text_hash, family, section_key, negative_names, added_version, id_hash
FROM negatives
ORDER BY negative_order

-- name: pairs
-- Which bins each class may, or must not, draw from.
-- Rows: by class and bin.
SELECT class, bin
FROM class_bins
ORDER BY class, bin

-- name: positives
-- What a sampler draws positives from.
-- Rows: by record_key (the anchor's), and in the order of their own records and chunks.
SELECT record_key, chunk_key, text_hash, positive_names, added_version, id_hash
FROM positives
ORDER BY record_key, added_version, id_hash, chunk_key

-- name: illegal
-- Texts that a family may not draw, though others have them, too: what only it has needs no list.
-- Besides them (is_answer) texts that are known answers to the questions of anchors.
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
-- Texts that ask for what positives answer, where several families have these.
-- Rows: in any order.
SELECT question, text_hash
FROM known_swapped
JOIN (SELECT DISTINCT question FROM positives) AS asked USING (question)

-- name: unpaired
-- Positives of a record that an anchor text must not take, by what labels say.
-- Rows: in any order.
SELECT DISTINCT said.record_key, anchors.text_hash AS anchor_hash, said.text_hash
FROM anchors
JOIN said USING (record_key)
JOIN positives ON positives.record_key = said.record_key AND positives.text_hash = said.text_hash
EXCEPT SELECT record_key, anchor_hash, text_hash
FROM paired

-- name: inconsistent
-- Positives of a record that an anchor text must not take, as a scorer ranks them too low.
-- Rows: in any order.
SELECT DISTINCT anchors.record_key, anchors.text_hash AS anchor_hash, positives.text_hash
FROM anchors
JOIN positives USING (record_key)
EXCEPT SELECT record_key, anchor_hash, text_hash
FROM consistent

-- name: consistent
-- The sections of anchors and positives that the consistency filter pairs.
-- Rows: in any order.
SELECT DISTINCT anchor_section_key, positive_section_key
FROM offered_pairs
JOIN consistent USING (record_key, anchor_hash, text_hash)

-- name: filtered
-- How many pairs there are and how many are consistent; the same of the records of anchors.
-- Rows: one.
SELECT
    (SELECT count(*) FROM (SELECT DISTINCT record_key, anchor_hash, text_hash FROM offered_pairs))
        AS pairs,
    (SELECT count(*) FROM consistent) AS consistent_pairs,
    (SELECT count(DISTINCT record_key) FROM offered_pairs) AS anchors,
    (SELECT count(DISTINCT record_key) FROM consistent) AS consistent_anchors

-- name: labelled
-- Texts that labels call an answer of a family, perhaps, and what is written alike.
-- Rows: in any order.
SELECT DISTINCT family, text_hash
FROM labelled
WHERE label > 0

-- name: left_out
-- The anchors that are left out, and why.
-- Rows: in the order of their records' versions and hashes of ids.
SELECT record_key, chunk_key, reason, added_version, id_hash
FROM judged
WHERE reason IS NOT NULL
ORDER BY added_version, id_hash, record_key, chunk_key

-- name: counts
-- The records of a source and split, or their chunks, by what becomes of them in a pool.
-- Parameters: $split, $version, $source.
-- Rows: by reason; NULL for those in the pool.
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
-- The anchors that negatives are mined for: sections of the pool.
-- Rows: by section_key and class.
SELECT DISTINCT record_key, section_key, family, question, class_name
FROM eligible
ORDER BY section_key, class

-- name: mined_documents
-- The documents that negatives are mined among: sections the negative selector matches.
-- Rows: by section_key and bin.
SELECT DISTINCT record_key, section_key, bin_name
FROM negatives
ORDER BY section_key, bin

-- name: mined_positives
-- The sections that positives are taken from, by the record of the anchor.
-- Rows: by record_key (the anchor's) and section_key.
SELECT DISTINCT record_key, section_key
FROM positives
ORDER BY record_key, section_key

-- name: sizes
-- How many classes and bins an sql() strategy compares.
SELECT
    (SELECT count(DISTINCT class) FROM anchors) AS classes,
    (SELECT count(DISTINCT bin) FROM negatives) AS bins

-- name: labels
-- The sources that have labels at a version, and whether some are neither 0 nor 1; one row more,
-- without a source, where pairs of others are labelled.
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
-- The sources that have documents, each with the source of these.
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
