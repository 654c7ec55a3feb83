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
    slot.text_hash,
    CAST(slot.record_key AS UBIGINT) AS class
  FROM members AS slot
  WHERE
    slot.source = $source AND slot.role = 'anchor'
), positives /* Every window an anchor's record may take its positive from. */ AS (
  SELECT
    slot.record_key,
    slot.chunk_key,
    slot.text_hash
  FROM members AS slot
  WHERE
    slot.source = $source AND slot.role = 'context'
), negatives /* Every window the negative selector matches, grouped by what the strategy compares. */ AS (
  SELECT
    slot.record_key,
    slot.chunk_key,
    slot.text_hash,
    CAST(slot.record_key AS UBIGINT) AS class_group
  FROM members AS slot
  WHERE
    slot.source = $source AND slot.role = 'rejected'
), positive_texts /* The texts an anchor's record can take its positive from: only the first and the last matter, */ /* for if they are one, they all are. */ AS (
  SELECT
    record_key,
    COUNT(*) AS positives,
    MIN(text_hash) AS first_text,
    MAX(text_hash) AS last_text
  FROM positives
  GROUP BY
    record_key
), doubts AS (
  SELECT DISTINCT
    record_key,
    class
  FROM anchors
), doubtful_texts AS (
  SELECT DISTINCT
    class_group AS class,
    text_hash
  FROM negatives
), illegal_texts AS (
  SELECT
    record_key,
    text_hash
  FROM anchors
  UNION
  SELECT
    record_key,
    text_hash
  FROM positives
), resolved AS (
  SELECT
    doubts.record_key,
    doubts.class
  FROM doubts
  JOIN doubtful_texts
    USING (class)
  WHERE
    NOT EXISTS(
      SELECT
        *
      FROM illegal_texts
      WHERE
        illegal_texts.record_key = doubts.record_key
        AND illegal_texts.text_hash = doubtful_texts.text_hash
    )
  GROUP BY
    doubts.record_key,
    doubts.class
  HAVING
    COUNT(*) >= $negatives
), verdicts AS (
  SELECT
    anchors.record_key,
    anchors.chunk_key,
    anchors.text_hash,
    anchors.class,
    positive_texts.positives,
    CASE
      WHEN positive_texts.positives IS NULL
      THEN 'no positive'
      WHEN TRUE
      AND positive_texts.first_text = anchors.text_hash
      AND positive_texts.last_text = anchors.text_hash
      THEN 'same text'
      WHEN NOT doubts.class IS NULL AND resolved.class IS NULL
      THEN 'no negative'
    END AS reason
  FROM anchors
  LEFT JOIN positive_texts
    USING (record_key)
  LEFT JOIN doubts
    ON doubts.record_key = anchors.record_key AND doubts.class = anchors.class
  LEFT JOIN resolved
    ON resolved.record_key = anchors.record_key AND resolved.class = anchors.class
), pool AS (
  SELECT
    MIN(record_key) AS record_key,
    ARRAY_AGG(chunk_key ORDER BY chunk_key) AS anchors,
    MIN(positives) AS positives
  FROM verdicts
  WHERE
    reason IS NULL
  GROUP BY
    record_key
)
SELECT
  pool.record_key,
  records.record_id,
  pool.anchors,
  pool.positives
FROM pool
JOIN records
  ON records.record_key = pool.record_key
ORDER BY
  pool.record_key,
  pool.anchors;
