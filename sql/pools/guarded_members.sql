-- The first parts of a pool whose negatives are mined: pools/members, with the section, the family
-- (the record's group, else the record, named by the smallest key of its records) and the hash of
-- the normalised text of every window's section.
-- Parameters: $split, $version.
WITH groups AS (
    SELECT source_id, group_key, min(record_key) AS family
    FROM records
    WHERE group_key IS NOT NULL
    GROUP BY source_id, group_key
),

-- Sections that came after the last mining are not in text_hashes yet.
fresh_texts AS (
    SELECT
        sections.section_key,
        md5_number_lower(
            lower(strip_accents(nfc_normalize(trim(regexp_replace(sections.text, '\s+', ' ', 'g')))))
        ) AS text_hash
    FROM sections
    JOIN (
        SELECT section_key
        FROM sections
        WHERE section_key NOT IN (SELECT section_key FROM text_hashes)
    ) AS fresh USING (section_key)
),

members AS NOT MATERIALIZED (
    SELECT
        chunks.chunk_key,
        chunks.record_key,
        chunks.section_key,
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
        sources.name AS source,
        coalesce(groups.family, chunks.record_key) AS family,
        coalesce(text_hashes.text_hash, fresh_texts.text_hash) AS normal
    FROM chunks
    JOIN sections ON sections.section_key = chunks.section_key
    JOIN records ON records.record_key = chunks.record_key
    JOIN splits ON splits.record_key = chunks.record_key
    JOIN sources ON sources.source_id = records.source_id
    LEFT JOIN groups
        ON groups.source_id = records.source_id AND groups.group_key = records.group_key
    LEFT JOIN text_hashes ON text_hashes.section_key = chunks.section_key
    LEFT JOIN fresh_texts ON fresh_texts.section_key = chunks.section_key
    WHERE
        splits.split = $split
        AND records.added_version <= $version
        AND coalesce(records.removed_version > $version, TRUE)
)
SELECT 1
