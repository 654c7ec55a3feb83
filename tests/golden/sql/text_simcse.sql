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
    CAST(0 AS UBIGINT) AS class
  FROM members AS slot
  WHERE
    slot.source = $source AND slot.role <> 'rejected'
), positives AS (
  SELECT
    record_key,
    chunk_key,
    text_hash
  FROM anchors
), negatives /* Every window the negative selector matches, grouped by what the strategy compares. */ AS (
  SELECT
    slot.record_key,
    slot.chunk_key,
    slot.text_hash,
    CAST(0 AS UBIGINT) AS class_group
  FROM members AS slot
  WHERE
    slot.source = $source AND slot.role <> 'rejected'
), pairs /* Which groups of negatives each class of anchors must not draw from (or, where the strategy */ /* demands an equality, the only ones it may draw from). */ AS (
  SELECT
    CAST(0 AS UBIGINT) AS class,
    CAST(0 AS UBIGINT) AS class_group
  WHERE
    FALSE
), positive_texts /* The texts an anchor's record can take its positive from: only the first and the last matter, */ /* for if they are one, they all are. */ AS (
  SELECT
    record_key,
    COUNT(*) AS positives,
    MIN(text_hash) AS first_text,
    MAX(text_hash) AS last_text
  FROM positives
  GROUP BY
    record_key
), group_texts AS (
  SELECT
    CAST(0 AS UBIGINT) AS class_group,
    COUNT(DISTINCT text_hash) AS texts
  FROM (
    SELECT
      text_hash
    FROM negatives
    LIMIT 50000
  )
), class_texts AS (
  SELECT
    classes.class,
    (
      SELECT
        COALESCE(SUM(texts), 0)
      FROM group_texts
    ) - COALESCE(forbidden.texts, 0) AS texts
  FROM (
    SELECT DISTINCT
      class
    FROM anchors
  ) AS classes
  LEFT JOIN (
    SELECT
      pairs.class,
      SUM(group_texts.texts) AS texts
    FROM pairs
    JOIN group_texts
      USING (class_group)
    GROUP BY
      pairs.class
  ) AS forbidden
    USING (class)
), most_windows /* No record has more windows than this, whatever its sections: read off the columns' ranges. */ AS (
  SELECT
    (
      SELECT
        MAX(position) + 1
      FROM sections
    ) * (
      SELECT
        (
          MAX(window_index) + 2
        ) * (
          COUNT(DISTINCT overlap) + 1
        )
      FROM chunks
    ) AS windows
), risky_classes AS (
  SELECT
    classes.class,
    COALESCE(class_texts.texts, 0) AS texts
  FROM (
    SELECT DISTINCT
      class
    FROM anchors
  ) AS classes
  LEFT JOIN class_texts
    USING (class)
  WHERE
    COALESCE(class_texts.texts, 0) < 3 * (
      SELECT
        windows
      FROM most_windows
    ) + $negatives
), illegal_counts /* A text the record has as anchor or positive is never its negative, so as many texts as that, */ /* and those of its own negatives, can be illegal for it. */ AS (
  SELECT
    record_key,
    COUNT(*) AS illegal
  FROM (
    SELECT
      record_key
    FROM anchors
    UNION ALL
    SELECT
      record_key
    FROM positives
    UNION ALL
    SELECT
      record_key
    FROM negatives
  )
  WHERE
    record_key IN (
      SELECT
        record_key
      FROM anchors
      WHERE
        class IN (
          SELECT
            class
          FROM risky_classes
        )
    )
  GROUP BY
    record_key
), doubts AS (
  SELECT DISTINCT
    anchors.record_key,
    anchors.class
  FROM anchors
  JOIN risky_classes
    USING (class)
  JOIN illegal_counts
    USING (record_key)
  WHERE
    risky_classes.texts < illegal_counts.illegal + $negatives
), doubtful_negatives AS (
  SELECT
    classes.class,
    negatives.record_key,
    negatives.text_hash
  FROM (
    SELECT DISTINCT
      class
    FROM doubts
  ) AS classes
  CROSS JOIN negatives
  WHERE
    NOT EXISTS(
      SELECT
        *
      FROM pairs
      WHERE
        pairs.class = classes.class AND pairs.class_group = negatives.class_group
    )
), doubtful_texts AS (
  SELECT
    class,
    text_hash,
    MIN(record_key) AS first_record,
    MAX(record_key) AS last_record
  FROM doubtful_negatives
  GROUP BY
    class,
    text_hash
), illegal_texts AS (
  SELECT
    record_key,
    text_hash
  FROM anchors
  WHERE
    record_key IN (
      SELECT
        record_key
      FROM doubts
    )
  UNION
  SELECT
    record_key,
    text_hash
  FROM positives
  WHERE
    record_key IN (
      SELECT
        record_key
      FROM doubts
    )
), resolved /* Doubts resolved one by one: enough texts of other records that are none of the illegal ones. */ AS (
  SELECT
    doubts.record_key,
    doubts.class
  FROM doubts
  JOIN doubtful_texts
    USING (class)
  WHERE
    (
      doubtful_texts.first_record <> doubts.record_key
      OR doubtful_texts.last_record <> doubts.record_key
    )
    AND NOT EXISTS(
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
      WHEN FALSE
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
    slot.text_hash,
    CAST(0 AS UBIGINT) AS class
  FROM members AS slot
  WHERE
    slot.source = 'it''s' AND slot.role <> 'rejected'
), positives AS (
  SELECT
    record_key,
    chunk_key,
    text_hash
  FROM anchors
), negatives /* Every window the negative selector matches, grouped by what the strategy compares. */ AS (
  SELECT
    slot.record_key,
    slot.chunk_key,
    slot.text_hash,
    CAST(0 AS UBIGINT) AS class_group
  FROM members AS slot
  WHERE
    slot.source = 'it''s' AND slot.role <> 'rejected'
), pairs /* Which groups of negatives each class of anchors must not draw from (or, where the strategy */ /* demands an equality, the only ones it may draw from). */ AS (
  SELECT
    CAST(0 AS UBIGINT) AS class,
    CAST(0 AS UBIGINT) AS class_group
  WHERE
    FALSE
), positive_texts /* The texts an anchor's record can take its positive from: only the first and the last matter, */ /* for if they are one, they all are. */ AS (
  SELECT
    record_key,
    COUNT(*) AS positives,
    MIN(text_hash) AS first_text,
    MAX(text_hash) AS last_text
  FROM positives
  GROUP BY
    record_key
), group_texts AS (
  SELECT
    CAST(0 AS UBIGINT) AS class_group,
    COUNT(DISTINCT text_hash) AS texts
  FROM (
    SELECT
      text_hash
    FROM negatives
    LIMIT 50000
  )
), class_texts AS (
  SELECT
    classes.class,
    (
      SELECT
        COALESCE(SUM(texts), 0)
      FROM group_texts
    ) - COALESCE(forbidden.texts, 0) AS texts
  FROM (
    SELECT DISTINCT
      class
    FROM anchors
  ) AS classes
  LEFT JOIN (
    SELECT
      pairs.class,
      SUM(group_texts.texts) AS texts
    FROM pairs
    JOIN group_texts
      USING (class_group)
    GROUP BY
      pairs.class
  ) AS forbidden
    USING (class)
), most_windows /* No record has more windows than this, whatever its sections: read off the columns' ranges. */ AS (
  SELECT
    (
      SELECT
        MAX(position) + 1
      FROM sections
    ) * (
      SELECT
        (
          MAX(window_index) + 2
        ) * (
          COUNT(DISTINCT overlap) + 1
        )
      FROM chunks
    ) AS windows
), risky_classes AS (
  SELECT
    classes.class,
    COALESCE(class_texts.texts, 0) AS texts
  FROM (
    SELECT DISTINCT
      class
    FROM anchors
  ) AS classes
  LEFT JOIN class_texts
    USING (class)
  WHERE
    COALESCE(class_texts.texts, 0) < 3 * (
      SELECT
        windows
      FROM most_windows
    ) + 1
), illegal_counts /* A text the record has as anchor or positive is never its negative, so as many texts as that, */ /* and those of its own negatives, can be illegal for it. */ AS (
  SELECT
    record_key,
    COUNT(*) AS illegal
  FROM (
    SELECT
      record_key
    FROM anchors
    UNION ALL
    SELECT
      record_key
    FROM positives
    UNION ALL
    SELECT
      record_key
    FROM negatives
  )
  WHERE
    record_key IN (
      SELECT
        record_key
      FROM anchors
      WHERE
        class IN (
          SELECT
            class
          FROM risky_classes
        )
    )
  GROUP BY
    record_key
), doubts AS (
  SELECT DISTINCT
    anchors.record_key,
    anchors.class
  FROM anchors
  JOIN risky_classes
    USING (class)
  JOIN illegal_counts
    USING (record_key)
  WHERE
    risky_classes.texts < illegal_counts.illegal + 1
), doubtful_negatives AS (
  SELECT
    classes.class,
    negatives.record_key,
    negatives.text_hash
  FROM (
    SELECT DISTINCT
      class
    FROM doubts
  ) AS classes
  CROSS JOIN negatives
  WHERE
    NOT EXISTS(
      SELECT
        *
      FROM pairs
      WHERE
        pairs.class = classes.class AND pairs.class_group = negatives.class_group
    )
), doubtful_texts AS (
  SELECT
    class,
    text_hash,
    MIN(record_key) AS first_record,
    MAX(record_key) AS last_record
  FROM doubtful_negatives
  GROUP BY
    class,
    text_hash
), illegal_texts AS (
  SELECT
    record_key,
    text_hash
  FROM anchors
  WHERE
    record_key IN (
      SELECT
        record_key
      FROM doubts
    )
  UNION
  SELECT
    record_key,
    text_hash
  FROM positives
  WHERE
    record_key IN (
      SELECT
        record_key
      FROM doubts
    )
), resolved /* Doubts resolved one by one: enough texts of other records that are none of the illegal ones. */ AS (
  SELECT
    doubts.record_key,
    doubts.class
  FROM doubts
  JOIN doubtful_texts
    USING (class)
  WHERE
    (
      doubtful_texts.first_record <> doubts.record_key
      OR doubtful_texts.last_record <> doubts.record_key
    )
    AND NOT EXISTS(
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
    COUNT(*) >= 1
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
      WHEN FALSE
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
