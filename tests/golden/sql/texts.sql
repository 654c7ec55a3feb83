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
  JOIN sections
    ON sections.section_key = chunks.section_key
  JOIN records
    ON records.record_key = chunks.record_key
  JOIN splits
    ON splits.record_key = chunks.record_key
  JOIN sources
    ON sources.source_id = records.source_id
  WHERE
    splits.split = $split
    AND records.added_version <= $version
    AND COALESCE(records.removed_version > $version, TRUE)
), anchors AS (
  SELECT
    slot.record_key,
    slot.chunk_key,
    slot.text_hash
  FROM members AS slot
  WHERE
    slot.source = $source AND slot.role <> 'rejected' AND slot.kind = 'window'
), pool AS (
  SELECT
    MIN(record_key) AS record_key,
    ARRAY_AGG(chunk_key ORDER BY chunk_key) AS anchors
  FROM anchors
  GROUP BY
    chunk_key
)
SELECT
  pool.record_key,
  records.record_id,
  pool.anchors
FROM pool
JOIN records
  ON records.record_key = pool.record_key
ORDER BY
  pool.record_key,
  pool.anchors;

-- runnable
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
  JOIN sections
    ON sections.section_key = chunks.section_key
  JOIN records
    ON records.record_key = chunks.record_key
  JOIN splits
    ON splits.record_key = chunks.record_key
  JOIN sources
    ON sources.source_id = records.source_id
  WHERE
    splits.split = 'train'
    AND records.added_version <= 3
    AND COALESCE(records.removed_version > 3, TRUE)
), anchors AS (
  SELECT
    slot.record_key,
    slot.chunk_key,
    slot.text_hash
  FROM members AS slot
  WHERE
    slot.source = 'it''s' AND slot.role <> 'rejected' AND slot.kind = 'window'
), pool AS (
  SELECT
    MIN(record_key) AS record_key,
    ARRAY_AGG(chunk_key ORDER BY chunk_key) AS anchors
  FROM anchors
  GROUP BY
    chunk_key
)
SELECT
  pool.record_key,
  records.record_id,
  pool.anchors
FROM pool
JOIN records
  ON records.record_key = pool.record_key
ORDER BY
  pool.record_key,
  pool.anchors;
