-- The chunks of a split at a version with their families and writings; of one source, or of all.
-- A family is a number: the key of the record, or one below 0 from the name of its group.
-- Chunks are written alike where they share a writing: the window, or its whole section.
CREATE OR REPLACE TEMP MACRO chunks_of(of_source, of_split, at_version) AS TABLE
SELECT
    chunks.chunk_key, chunks.record_key, chunks.text_hash, chunks.kind, chunks.window_index,
    sections.position, sections.role, sections.heading, sections.text, sections.token_count,
    records.record_id, records.date, records.group_key, records.taxonomy, records.meta,
    records.trust, records.created_at, records.updated_at, records.label, sources.name AS source,
    hashed.normalised_hash AS question,
    [chunks.text_hash, xor(hashed.normalised_hash, 1)] AS writings,
    coalesce(-1 - (md5_number_lower(records.group_key) >> 1)::BIGINT, records.record_key) AS family
FROM chunks
JOIN sections ON sections.section_key = chunks.section_key
JOIN _internal.section_hashes AS hashed ON hashed.section_key = chunks.section_key
JOIN records ON records.record_key = chunks.record_key
JOIN splits ON splits.record_key = chunks.record_key
JOIN sources ON sources.source_id = records.source_id
WHERE
    splits.split = of_split AND (of_source IS NULL OR sources.name = of_source)
    AND is_live(records.added_version, records.removed_version, at_version);
