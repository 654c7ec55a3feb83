-- How records were judged: whether their anchor and positive belong together, or how well.
ALTER TABLE records ADD COLUMN label DOUBLE;
COMMENT ON COLUMN records.label IS 'How the pair of its anchor and positive was judged: 1, 0 or a grade; NULL where nobody did';

CREATE OR REPLACE MACRO split_chunks(of_split, at_version) AS TABLE
SELECT
    chunks.chunk_key, chunks.record_key, chunks.section_key, chunks.text_hash, chunks.kind,
    chunks.window_index, sections.position, sections.role, sections.heading, sections.text,
    sections.token_count, records.record_id, records.date, records.group_key, records.taxonomy,
    records.meta, records.trust, records.created_at, records.updated_at, records.label,
    sources.name AS source
FROM chunks
JOIN sections ON sections.section_key = chunks.section_key
JOIN records ON records.record_key = chunks.record_key
JOIN splits ON splits.record_key = chunks.record_key
JOIN sources ON sources.source_id = records.source_id
WHERE
    splits.split = of_split
    AND is_live(records.added_version, records.removed_version, at_version);
COMMENT ON MACRO TABLE split_chunks IS
    'The chunks of a split at a version, with all that selectors and conditions can look at';
