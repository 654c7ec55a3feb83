-- The first part of every pool: the windows of a split as of a version, with everything that a
-- selector or a condition can look at.
-- Parameters: $split, $version.
WITH members AS NOT MATERIALIZED (
    SELECT
        chunks.chunk_key,
        chunks.record_key,
        chunks.text_hash,
        chunks.kind,
        chunks.window_index,
        sections.position,
        sections.role,
        sections.heading,
        sections.text,
        sections.token_count,
        records.record_id,
        records.date,
        records.group_key,
        records.taxonomy,
        records.meta,
        records.trust,
        records.created_at,
        records.updated_at,
        sources.name AS source
    FROM chunks
    JOIN sections ON sections.section_key = chunks.section_key
    JOIN records ON records.record_key = chunks.record_key
    JOIN splits ON splits.record_key = chunks.record_key
    JOIN sources ON sources.source_id = records.source_id
    WHERE
        splits.split = $split
        AND records.added_version <= $version
        AND coalesce(records.removed_version > $version, TRUE)
)
SELECT 1
