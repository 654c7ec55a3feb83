WITH groups AS (
  SELECT
    source_id,
    group_key,
    MIN(record_key) AS family
  FROM records
  WHERE
    NOT group_key IS NULL
  GROUP BY
    source_id,
    group_key
), fresh_texts /* Sections that came after the last mining are not in text_hashes yet. */ AS (
  SELECT
    sections.section_key,
    MD5_NUMBER_LOWER(
      LOWER(
        STRIP_ACCENTS(NFC_NORMALIZE(TRIM(REGEXP_REPLACE(sections.text, '\s+', ' ', 'g'))))
      )
    ) AS text_hash
  FROM sections
  JOIN (
    SELECT
      section_key
    FROM sections
    WHERE
      NOT section_key IN (
        SELECT
          section_key
        FROM text_hashes
      )
  ) AS fresh
    USING (section_key)
), members AS NOT MATERIALIZED (
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
    COALESCE(groups.family, chunks.record_key) AS family,
    COALESCE(text_hashes.text_hash, fresh_texts.text_hash) AS normal
  FROM chunks
  JOIN sections
    ON sections.section_key = chunks.section_key
  JOIN records
    ON records.record_key = chunks.record_key
  JOIN splits
    ON splits.record_key = chunks.record_key
  JOIN sources
    ON sources.source_id = records.source_id
  LEFT JOIN groups
    ON groups.source_id = records.source_id AND groups.group_key = records.group_key
  LEFT JOIN text_hashes
    ON text_hashes.section_key = chunks.section_key
  LEFT JOIN fresh_texts
    ON fresh_texts.section_key = chunks.section_key
  WHERE
    splits.split = $split
    AND records.added_version <= $version
    AND COALESCE(records.removed_version > $version, TRUE)
), anchors AS (
  SELECT
    slot.record_key,
    slot.chunk_key,
    slot.section_key,
    slot.text_hash,
    slot.normal,
    slot.family,
    MD5_NUMBER_LOWER(JSON_ARRAY(slot.date)) AS class,
    slot.date AS a0
  FROM members AS slot
  WHERE
    slot.source = $source AND slot.role = 'anchor'
), candidates AS (
  SELECT DISTINCT
    slot.record_key,
    slot.record_id,
    slot.date,
    UNNEST(['source:' || slot.source, 'taxonomy:' || slot.taxonomy[1]]) AS part
  FROM members AS slot
  WHERE
    NOT slot.date IS NULL AND slot.role = 'context'
), candidate_dates AS (
  SELECT
    part,
    date,
    ARRAY_AGG({'id': record_id, 'key': record_key} ORDER BY record_id)[1:2] AS others,
    LAG(date) OVER (PARTITION BY part ORDER BY date) AS previous_date,
    LEAD(date) OVER (PARTITION BY part ORDER BY date) AS next_date
  FROM candidates
  WHERE
    NOT part IS NULL
  GROUP BY
    part,
    date
), wanted AS (
  SELECT DISTINCT
    slot.record_key,
    CAST((
      slot.date + 3
    ) AS DATE) AS date,
    UNNEST(['source:' || slot.source, 'taxonomy:' || slot.taxonomy[1]]) AS part
  FROM members AS slot
  WHERE
    slot.source = $source AND NOT slot.date IS NULL AND slot.role = 'anchor'
), around AS (
  SELECT
    wanted.record_key,
    wanted.part,
    wanted.date AS wanted_date,
    UNNEST([earlier.date, earlier.previous_date, later.date, later.next_date]) AS date
  FROM wanted
  ASOF LEFT JOIN candidate_dates AS earlier
    ON wanted.part = earlier.part AND wanted.date >= earlier.date
  ASOF LEFT JOIN candidate_dates AS later
    ON wanted.part = later.part AND wanted.date <= later.date
), nearest AS (
  SELECT
    record_key,
    other.key AS other_key
  FROM (
    SELECT
      around.record_key,
      ABS(around.date - around.wanted_date) AS distance,
      UNNEST(candidate_dates.others) AS other
    FROM around
    JOIN candidate_dates
      USING (part, date)
  )
  WHERE
    other.key <> record_key
  QUALIFY
    ROW_NUMBER() OVER (PARTITION BY record_key ORDER BY distance, other.id) = 1
), positives AS (
  SELECT
    nearest.record_key,
    slot.chunk_key,
    slot.text_hash,
    section_key,
    normal
  FROM nearest
  JOIN members AS slot
    ON slot.record_key = nearest.other_key
  WHERE
    slot.role = 'context'
), negatives AS (
  SELECT
    slot.record_key,
    slot.chunk_key,
    slot.section_key,
    slot.text_hash,
    slot.normal,
    slot.family,
    MD5_NUMBER_LOWER(JSON_ARRAY(slot.date)) AS class_group,
    slot.date AS n0
  FROM members AS slot
  WHERE
    slot.source = $source AND slot.role = 'context'
), pairs AS (
  SELECT DISTINCT
    anchor.class,
    negative.class_group
  FROM (
    SELECT DISTINCT
      class,
      a0
    FROM anchors
  ) AS anchor
  JOIN (
    SELECT DISTINCT
      class_group,
      n0
    FROM negatives
  ) AS negative
    ON (
      negative.n0 > anchor.a0
    )
), positive_texts AS (
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
    class_group,
    COUNT(*) AS texts
  FROM (
    SELECT
      MIN(class_group) AS class_group
    FROM negatives
    GROUP BY
      text_hash
    HAVING
      MIN(class_group) = MAX(class_group)
  )
  GROUP BY
    class_group
), class_texts AS (
  SELECT
    pairs.class,
    SUM(group_texts.texts) AS texts
  FROM pairs
  JOIN group_texts
    USING (class_group)
  GROUP BY
    pairs.class
), negative_texts /* What negatives have: their texts and normalised texts, and whose they are. What is of one family */ /* only is no negative within it. */ AS (
  SELECT
    text_hash,
    MIN(family) AS first_family,
    MAX(family) AS last_family,
    MIN(class_group) = MAX(class_group) AS of_one_group
  FROM negatives
  GROUP BY
    text_hash
), negative_normals AS (
  SELECT
    normal,
    MIN(family) AS first_family,
    MAX(family) AS last_family
  FROM negatives
  GROUP BY
    normal
), anchor_texts AS (
  SELECT DISTINCT
    record_key,
    class,
    family,
    normal
  FROM anchors
), own AS (
  SELECT
    record_key,
    family,
    text_hash,
    normal
  FROM anchors
  UNION ALL
  SELECT
    positives.record_key,
    anchored.family,
    positives.text_hash,
    positives.normal
  FROM positives
  JOIN (
    SELECT DISTINCT
      record_key,
      family
    FROM anchors
  ) AS anchored
    USING (record_key)
), own_normals /* Normalised texts that are no negatives of a record, for they are those of its own anchors and */ /* positives; and that are no negatives of an anchor's text, for some record with that text has them */ /* for a positive. (Where one record alone has that text, they are its own.) */ AS (
  SELECT DISTINCT
    own.record_key,
    own.family,
    own.normal
  FROM own
  JOIN negative_normals
    USING (normal)
  WHERE
    negative_normals.first_family <> own.family
    OR negative_normals.last_family <> own.family
), known_normals AS (
  SELECT DISTINCT
    shared.normal,
    positives.normal AS positive_normal
  FROM (
    SELECT
      normal
    FROM anchor_texts
    GROUP BY
      normal
    HAVING
      MIN(record_key) <> MAX(record_key)
  ) AS shared
  JOIN anchor_texts
    USING (normal)
  JOIN positives
    USING (record_key)
), writings /* The same as texts of negatives, for these are what is drawn. */ AS (
  SELECT
    found.normal,
    found.text_hash,
    negative_texts.first_family,
    negative_texts.last_family
  FROM (
    SELECT DISTINCT
      normal,
      text_hash
    FROM negatives
    WHERE
      normal IN (
        SELECT
          normal
        FROM own_normals
        UNION ALL
        SELECT
          positive_normal
        FROM known_normals
      )
  ) AS found
  JOIN negative_texts
    USING (text_hash)
), own_texts AS (
  SELECT
    own.record_key,
    own.text_hash
  FROM own
  JOIN negative_texts
    USING (text_hash)
  WHERE
    negative_texts.first_family <> own.family
    OR negative_texts.last_family <> own.family
  UNION
  SELECT
    own_normals.record_key,
    writings.text_hash
  FROM own_normals
  JOIN writings
    USING (normal)
  WHERE
    writings.first_family <> own_normals.family
    OR writings.last_family <> own_normals.family
), known_texts AS (
  SELECT DISTINCT
    known_normals.normal,
    writings.text_hash
  FROM known_normals
  JOIN writings
    ON writings.normal = known_normals.positive_normal
), more_class_texts AS (
  SELECT
    CAST(0 AS UBIGINT) AS class,
    0 AS texts
), family_texts /* How many texts are of one family only, and how many of those are of one group. */ AS (
  SELECT
    first_family AS family,
    COUNT(*) AS texts,
    COUNT(*) FILTER(WHERE
      of_one_group) AS of_one_group
  FROM negative_texts
  WHERE
    first_family = last_family
  GROUP BY
    first_family
), doubts /* Anchors for which there might be too few texts, if all that are illegal were among those that */ /* their class can draw; hopeless where no class could have enough. Of the largest family most can */ /* be doubtful, so only what lies outside is looked at for them: the narrow ones. */ AS (
  SELECT
    anchor_texts.record_key,
    anchor_texts.class,
    anchor_texts.family,
    anchor_texts.normal,
    anchor_texts.family = largest.family AS narrow,
    (
      SELECT
        COUNT(*)
      FROM negative_texts
    ) - COALESCE(family_texts.texts, 0) - COALESCE(of_own.texts, 0) < $negatives AS hopeless
  FROM anchor_texts
  CROSS JOIN (
    SELECT
      COALESCE(ARG_MAX(family, (texts, -family)), -1) AS family
    FROM family_texts
  ) AS largest
  LEFT JOIN class_texts
    USING (class)
  LEFT JOIN more_class_texts
    ON more_class_texts.class = anchor_texts.class
  LEFT JOIN family_texts
    ON family_texts.family = anchor_texts.family
  LEFT JOIN (
    SELECT
      record_key,
      COUNT(*) AS texts
    FROM own_texts
    GROUP BY
      record_key
  ) AS of_own
    ON of_own.record_key = anchor_texts.record_key
  LEFT JOIN (
    SELECT
      normal,
      COUNT(*) AS texts
    FROM known_texts
    GROUP BY
      normal
  ) AS of_known
    ON of_known.normal = anchor_texts.normal
  WHERE
    GREATEST(
      COALESCE(class_texts.texts, 0) - COALESCE(family_texts.of_one_group, 0),
      COALESCE(more_class_texts.texts, 0) - COALESCE(family_texts.texts, 0)
    ) < COALESCE(of_own.texts, 0) + COALESCE(of_known.texts, 0) + $negatives
), doubtful_negatives AS (
  SELECT
    asked.class,
    FALSE AS narrow,
    "some".text_hash,
    "some".family
  FROM (
    SELECT DISTINCT
      class
    FROM doubts
    WHERE
      NOT narrow AND NOT hopeless
  ) AS asked
  JOIN pairs
    USING (class)
  JOIN negatives AS "some"
    USING (class_group)
  UNION ALL
  SELECT
    asked.class,
    TRUE AS narrow,
    "some".text_hash,
    "some".family
  FROM (
    SELECT DISTINCT
      class
    FROM doubts
    WHERE
      narrow AND NOT hopeless
  ) AS asked
  JOIN pairs
    USING (class)
  JOIN (
    SELECT
      class_group,
      text_hash,
      family
    FROM negatives
    WHERE
      NOT family IN (
        SELECT
          family
        FROM doubts
        WHERE
          narrow
      )
  ) AS "some"
    USING (class_group)
), doubtful_texts /* From here on the legal texts of these anchors are counted: all that the class can draw, less */ /* those of the family, less the known ones, less the own ones that are not known. */ AS (
  SELECT
    class,
    narrow,
    text_hash,
    MIN(family) AS first_family,
    MAX(family) AS last_family
  FROM doubtful_negatives
  GROUP BY
    class,
    narrow,
    text_hash
), texts_of_class AS (
  SELECT
    class,
    narrow,
    COUNT(*) AS texts
  FROM doubtful_texts
  GROUP BY
    class,
    narrow
), texts_of_family AS (
  SELECT
    class,
    narrow,
    first_family AS family,
    COUNT(*) AS texts
  FROM doubtful_texts
  WHERE
    first_family = last_family
  GROUP BY
    class,
    narrow,
    first_family
), asked_known /* Materialized, so that what these name is never joined before them: that would be every anchor */ /* with every text. */ AS MATERIALIZED (
  SELECT
    asked.class,
    asked.narrow,
    asked.normal,
    known_texts.text_hash
  FROM (
    SELECT DISTINCT
      class,
      narrow,
      normal
    FROM doubts
    WHERE
      NOT hopeless
  ) AS asked
  JOIN known_texts
    USING (normal)
), asked_own AS MATERIALIZED (
  SELECT
    doubts.record_key,
    doubts.class,
    doubts.narrow,
    doubts.normal,
    doubts.family,
    own_texts.text_hash
  FROM doubts
  JOIN own_texts
    USING (record_key)
  WHERE
    NOT doubts.hopeless
), doubtful_known AS (
  SELECT
    asked_known.class,
    asked_known.narrow,
    asked_known.normal,
    doubtful_texts.first_family,
    doubtful_texts.last_family
  FROM asked_known
  JOIN doubtful_texts
    USING (class, narrow, text_hash)
), texts_known AS (
  SELECT
    class,
    narrow,
    normal,
    COUNT(*) AS texts
  FROM doubtful_known
  GROUP BY
    class,
    narrow,
    normal
), texts_known_of_family AS (
  SELECT
    class,
    narrow,
    normal,
    first_family AS family,
    COUNT(*) AS texts
  FROM doubtful_known
  WHERE
    first_family = last_family
  GROUP BY
    class,
    narrow,
    normal,
    first_family
), texts_own AS (
  SELECT
    asked_own.record_key,
    asked_own.class,
    asked_own.normal,
    COUNT(*) AS texts
  FROM asked_own
  JOIN doubtful_texts
    USING (class, narrow, text_hash)
  WHERE
    (
      doubtful_texts.first_family <> asked_own.family
      OR doubtful_texts.last_family <> asked_own.family
    )
    AND NOT EXISTS(
      SELECT
        *
      FROM known_texts
      WHERE
        known_texts.normal = asked_own.normal
        AND known_texts.text_hash = asked_own.text_hash
    )
  GROUP BY
    asked_own.record_key,
    asked_own.class,
    asked_own.normal
), without_negative AS (
  SELECT
    doubts.record_key,
    doubts.class,
    doubts.normal
  FROM doubts
  LEFT JOIN texts_of_class
    USING (class, narrow)
  LEFT JOIN texts_of_family
    USING (class, narrow, family)
  LEFT JOIN texts_known
    USING (class, narrow, normal)
  LEFT JOIN texts_known_of_family
    USING (class, narrow, normal, family)
  LEFT JOIN texts_own
    USING (record_key, class, normal)
  WHERE
    doubts.hopeless
    OR COALESCE(texts_of_class.texts, 0) - COALESCE(texts_of_family.texts, 0) - COALESCE(texts_known.texts, 0) + COALESCE(texts_known_of_family.texts, 0) - COALESCE(texts_own.texts, 0) < $negatives
), verdicts AS (
  SELECT
    anchors.record_key,
    anchors.chunk_key,
    anchors.section_key,
    anchors.text_hash,
    anchors.class,
    anchors.normal,
    anchors.family,
    positive_texts.positives,
    CASE
      WHEN positive_texts.positives IS NULL
      THEN 'no positive'
      WHEN TRUE
      AND positive_texts.first_text = anchors.text_hash
      AND positive_texts.last_text = anchors.text_hash
      THEN 'same text'
      WHEN NOT without_negative.class IS NULL
      THEN 'no negative'
      WHEN NOT dropped.anchor_section_key IS NULL
      THEN 'too few candidates'
    END AS reason
  FROM anchors
  LEFT JOIN positive_texts
    USING (record_key)
  LEFT JOIN without_negative
    ON without_negative.record_key = anchors.record_key
    AND without_negative.class = anchors.class
    AND without_negative.normal = anchors.normal
  LEFT JOIN mined_anchors AS dropped
    ON dropped.mining_key = $mining
    AND dropped.anchor_section_key = anchors.section_key
    AND dropped.outcome = 'dropped'
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
WITH groups AS (
  SELECT
    source_id,
    group_key,
    MIN(record_key) AS family
  FROM records
  WHERE
    NOT group_key IS NULL
  GROUP BY
    source_id,
    group_key
), fresh_texts /* Sections that came after the last mining are not in text_hashes yet. */ AS (
  SELECT
    sections.section_key,
    MD5_NUMBER_LOWER(
      LOWER(
        STRIP_ACCENTS(NFC_NORMALIZE(TRIM(REGEXP_REPLACE(sections.text, '\s+', ' ', 'g'))))
      )
    ) AS text_hash
  FROM sections
  JOIN (
    SELECT
      section_key
    FROM sections
    WHERE
      NOT section_key IN (
        SELECT
          section_key
        FROM text_hashes
      )
  ) AS fresh
    USING (section_key)
), members AS NOT MATERIALIZED (
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
    COALESCE(groups.family, chunks.record_key) AS family,
    COALESCE(text_hashes.text_hash, fresh_texts.text_hash) AS normal
  FROM chunks
  JOIN sections
    ON sections.section_key = chunks.section_key
  JOIN records
    ON records.record_key = chunks.record_key
  JOIN splits
    ON splits.record_key = chunks.record_key
  JOIN sources
    ON sources.source_id = records.source_id
  LEFT JOIN groups
    ON groups.source_id = records.source_id AND groups.group_key = records.group_key
  LEFT JOIN text_hashes
    ON text_hashes.section_key = chunks.section_key
  LEFT JOIN fresh_texts
    ON fresh_texts.section_key = chunks.section_key
  WHERE
    splits.split = 'train'
    AND records.added_version <= 3
    AND COALESCE(records.removed_version > 3, TRUE)
), anchors AS (
  SELECT
    slot.record_key,
    slot.chunk_key,
    slot.section_key,
    slot.text_hash,
    slot.normal,
    slot.family,
    MD5_NUMBER_LOWER(JSON_ARRAY(slot.date)) AS class,
    slot.date AS a0
  FROM members AS slot
  WHERE
    slot.source = 'it''s' AND slot.role = 'anchor'
), candidates AS (
  SELECT DISTINCT
    slot.record_key,
    slot.record_id,
    slot.date,
    UNNEST(['source:' || slot.source, 'taxonomy:' || slot.taxonomy[1]]) AS part
  FROM members AS slot
  WHERE
    NOT slot.date IS NULL AND slot.role = 'context'
), candidate_dates AS (
  SELECT
    part,
    date,
    ARRAY_AGG({'id': record_id, 'key': record_key} ORDER BY record_id)[1:2] AS others,
    LAG(date) OVER (PARTITION BY part ORDER BY date) AS previous_date,
    LEAD(date) OVER (PARTITION BY part ORDER BY date) AS next_date
  FROM candidates
  WHERE
    NOT part IS NULL
  GROUP BY
    part,
    date
), wanted AS (
  SELECT DISTINCT
    slot.record_key,
    CAST((
      slot.date + 3
    ) AS DATE) AS date,
    UNNEST(['source:' || slot.source, 'taxonomy:' || slot.taxonomy[1]]) AS part
  FROM members AS slot
  WHERE
    slot.source = 'it''s' AND NOT slot.date IS NULL AND slot.role = 'anchor'
), around AS (
  SELECT
    wanted.record_key,
    wanted.part,
    wanted.date AS wanted_date,
    UNNEST([earlier.date, earlier.previous_date, later.date, later.next_date]) AS date
  FROM wanted
  ASOF LEFT JOIN candidate_dates AS earlier
    ON wanted.part = earlier.part AND wanted.date >= earlier.date
  ASOF LEFT JOIN candidate_dates AS later
    ON wanted.part = later.part AND wanted.date <= later.date
), nearest AS (
  SELECT
    record_key,
    other.key AS other_key
  FROM (
    SELECT
      around.record_key,
      ABS(around.date - around.wanted_date) AS distance,
      UNNEST(candidate_dates.others) AS other
    FROM around
    JOIN candidate_dates
      USING (part, date)
  )
  WHERE
    other.key <> record_key
  QUALIFY
    ROW_NUMBER() OVER (PARTITION BY record_key ORDER BY distance, other.id) = 1
), positives AS (
  SELECT
    nearest.record_key,
    slot.chunk_key,
    slot.text_hash,
    section_key,
    normal
  FROM nearest
  JOIN members AS slot
    ON slot.record_key = nearest.other_key
  WHERE
    slot.role = 'context'
), negatives AS (
  SELECT
    slot.record_key,
    slot.chunk_key,
    slot.section_key,
    slot.text_hash,
    slot.normal,
    slot.family,
    MD5_NUMBER_LOWER(JSON_ARRAY(slot.date)) AS class_group,
    slot.date AS n0
  FROM members AS slot
  WHERE
    slot.source = 'it''s' AND slot.role = 'context'
), pairs AS (
  SELECT DISTINCT
    anchor.class,
    negative.class_group
  FROM (
    SELECT DISTINCT
      class,
      a0
    FROM anchors
  ) AS anchor
  JOIN (
    SELECT DISTINCT
      class_group,
      n0
    FROM negatives
  ) AS negative
    ON (
      negative.n0 > anchor.a0
    )
), positive_texts AS (
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
    class_group,
    COUNT(*) AS texts
  FROM (
    SELECT
      MIN(class_group) AS class_group
    FROM negatives
    GROUP BY
      text_hash
    HAVING
      MIN(class_group) = MAX(class_group)
  )
  GROUP BY
    class_group
), class_texts AS (
  SELECT
    pairs.class,
    SUM(group_texts.texts) AS texts
  FROM pairs
  JOIN group_texts
    USING (class_group)
  GROUP BY
    pairs.class
), negative_texts /* What negatives have: their texts and normalised texts, and whose they are. What is of one family */ /* only is no negative within it. */ AS (
  SELECT
    text_hash,
    MIN(family) AS first_family,
    MAX(family) AS last_family,
    MIN(class_group) = MAX(class_group) AS of_one_group
  FROM negatives
  GROUP BY
    text_hash
), negative_normals AS (
  SELECT
    normal,
    MIN(family) AS first_family,
    MAX(family) AS last_family
  FROM negatives
  GROUP BY
    normal
), anchor_texts AS (
  SELECT DISTINCT
    record_key,
    class,
    family,
    normal
  FROM anchors
), own AS (
  SELECT
    record_key,
    family,
    text_hash,
    normal
  FROM anchors
  UNION ALL
  SELECT
    positives.record_key,
    anchored.family,
    positives.text_hash,
    positives.normal
  FROM positives
  JOIN (
    SELECT DISTINCT
      record_key,
      family
    FROM anchors
  ) AS anchored
    USING (record_key)
), own_normals /* Normalised texts that are no negatives of a record, for they are those of its own anchors and */ /* positives; and that are no negatives of an anchor's text, for some record with that text has them */ /* for a positive. (Where one record alone has that text, they are its own.) */ AS (
  SELECT DISTINCT
    own.record_key,
    own.family,
    own.normal
  FROM own
  JOIN negative_normals
    USING (normal)
  WHERE
    negative_normals.first_family <> own.family
    OR negative_normals.last_family <> own.family
), known_normals AS (
  SELECT DISTINCT
    shared.normal,
    positives.normal AS positive_normal
  FROM (
    SELECT
      normal
    FROM anchor_texts
    GROUP BY
      normal
    HAVING
      MIN(record_key) <> MAX(record_key)
  ) AS shared
  JOIN anchor_texts
    USING (normal)
  JOIN positives
    USING (record_key)
), writings /* The same as texts of negatives, for these are what is drawn. */ AS (
  SELECT
    found.normal,
    found.text_hash,
    negative_texts.first_family,
    negative_texts.last_family
  FROM (
    SELECT DISTINCT
      normal,
      text_hash
    FROM negatives
    WHERE
      normal IN (
        SELECT
          normal
        FROM own_normals
        UNION ALL
        SELECT
          positive_normal
        FROM known_normals
      )
  ) AS found
  JOIN negative_texts
    USING (text_hash)
), own_texts AS (
  SELECT
    own.record_key,
    own.text_hash
  FROM own
  JOIN negative_texts
    USING (text_hash)
  WHERE
    negative_texts.first_family <> own.family
    OR negative_texts.last_family <> own.family
  UNION
  SELECT
    own_normals.record_key,
    writings.text_hash
  FROM own_normals
  JOIN writings
    USING (normal)
  WHERE
    writings.first_family <> own_normals.family
    OR writings.last_family <> own_normals.family
), known_texts AS (
  SELECT DISTINCT
    known_normals.normal,
    writings.text_hash
  FROM known_normals
  JOIN writings
    ON writings.normal = known_normals.positive_normal
), more_class_texts AS (
  SELECT
    CAST(0 AS UBIGINT) AS class,
    0 AS texts
), family_texts /* How many texts are of one family only, and how many of those are of one group. */ AS (
  SELECT
    first_family AS family,
    COUNT(*) AS texts,
    COUNT(*) FILTER(WHERE
      of_one_group) AS of_one_group
  FROM negative_texts
  WHERE
    first_family = last_family
  GROUP BY
    first_family
), doubts /* Anchors for which there might be too few texts, if all that are illegal were among those that */ /* their class can draw; hopeless where no class could have enough. Of the largest family most can */ /* be doubtful, so only what lies outside is looked at for them: the narrow ones. */ AS (
  SELECT
    anchor_texts.record_key,
    anchor_texts.class,
    anchor_texts.family,
    anchor_texts.normal,
    anchor_texts.family = largest.family AS narrow,
    (
      SELECT
        COUNT(*)
      FROM negative_texts
    ) - COALESCE(family_texts.texts, 0) - COALESCE(of_own.texts, 0) < 1 AS hopeless
  FROM anchor_texts
  CROSS JOIN (
    SELECT
      COALESCE(ARG_MAX(family, (texts, -family)), -1) AS family
    FROM family_texts
  ) AS largest
  LEFT JOIN class_texts
    USING (class)
  LEFT JOIN more_class_texts
    ON more_class_texts.class = anchor_texts.class
  LEFT JOIN family_texts
    ON family_texts.family = anchor_texts.family
  LEFT JOIN (
    SELECT
      record_key,
      COUNT(*) AS texts
    FROM own_texts
    GROUP BY
      record_key
  ) AS of_own
    ON of_own.record_key = anchor_texts.record_key
  LEFT JOIN (
    SELECT
      normal,
      COUNT(*) AS texts
    FROM known_texts
    GROUP BY
      normal
  ) AS of_known
    ON of_known.normal = anchor_texts.normal
  WHERE
    GREATEST(
      COALESCE(class_texts.texts, 0) - COALESCE(family_texts.of_one_group, 0),
      COALESCE(more_class_texts.texts, 0) - COALESCE(family_texts.texts, 0)
    ) < COALESCE(of_own.texts, 0) + COALESCE(of_known.texts, 0) + 1
), doubtful_negatives AS (
  SELECT
    asked.class,
    FALSE AS narrow,
    "some".text_hash,
    "some".family
  FROM (
    SELECT DISTINCT
      class
    FROM doubts
    WHERE
      NOT narrow AND NOT hopeless
  ) AS asked
  JOIN pairs
    USING (class)
  JOIN negatives AS "some"
    USING (class_group)
  UNION ALL
  SELECT
    asked.class,
    TRUE AS narrow,
    "some".text_hash,
    "some".family
  FROM (
    SELECT DISTINCT
      class
    FROM doubts
    WHERE
      narrow AND NOT hopeless
  ) AS asked
  JOIN pairs
    USING (class)
  JOIN (
    SELECT
      class_group,
      text_hash,
      family
    FROM negatives
    WHERE
      NOT family IN (
        SELECT
          family
        FROM doubts
        WHERE
          narrow
      )
  ) AS "some"
    USING (class_group)
), doubtful_texts /* From here on the legal texts of these anchors are counted: all that the class can draw, less */ /* those of the family, less the known ones, less the own ones that are not known. */ AS (
  SELECT
    class,
    narrow,
    text_hash,
    MIN(family) AS first_family,
    MAX(family) AS last_family
  FROM doubtful_negatives
  GROUP BY
    class,
    narrow,
    text_hash
), texts_of_class AS (
  SELECT
    class,
    narrow,
    COUNT(*) AS texts
  FROM doubtful_texts
  GROUP BY
    class,
    narrow
), texts_of_family AS (
  SELECT
    class,
    narrow,
    first_family AS family,
    COUNT(*) AS texts
  FROM doubtful_texts
  WHERE
    first_family = last_family
  GROUP BY
    class,
    narrow,
    first_family
), asked_known /* Materialized, so that what these name is never joined before them: that would be every anchor */ /* with every text. */ AS MATERIALIZED (
  SELECT
    asked.class,
    asked.narrow,
    asked.normal,
    known_texts.text_hash
  FROM (
    SELECT DISTINCT
      class,
      narrow,
      normal
    FROM doubts
    WHERE
      NOT hopeless
  ) AS asked
  JOIN known_texts
    USING (normal)
), asked_own AS MATERIALIZED (
  SELECT
    doubts.record_key,
    doubts.class,
    doubts.narrow,
    doubts.normal,
    doubts.family,
    own_texts.text_hash
  FROM doubts
  JOIN own_texts
    USING (record_key)
  WHERE
    NOT doubts.hopeless
), doubtful_known AS (
  SELECT
    asked_known.class,
    asked_known.narrow,
    asked_known.normal,
    doubtful_texts.first_family,
    doubtful_texts.last_family
  FROM asked_known
  JOIN doubtful_texts
    USING (class, narrow, text_hash)
), texts_known AS (
  SELECT
    class,
    narrow,
    normal,
    COUNT(*) AS texts
  FROM doubtful_known
  GROUP BY
    class,
    narrow,
    normal
), texts_known_of_family AS (
  SELECT
    class,
    narrow,
    normal,
    first_family AS family,
    COUNT(*) AS texts
  FROM doubtful_known
  WHERE
    first_family = last_family
  GROUP BY
    class,
    narrow,
    normal,
    first_family
), texts_own AS (
  SELECT
    asked_own.record_key,
    asked_own.class,
    asked_own.normal,
    COUNT(*) AS texts
  FROM asked_own
  JOIN doubtful_texts
    USING (class, narrow, text_hash)
  WHERE
    (
      doubtful_texts.first_family <> asked_own.family
      OR doubtful_texts.last_family <> asked_own.family
    )
    AND NOT EXISTS(
      SELECT
        *
      FROM known_texts
      WHERE
        known_texts.normal = asked_own.normal
        AND known_texts.text_hash = asked_own.text_hash
    )
  GROUP BY
    asked_own.record_key,
    asked_own.class,
    asked_own.normal
), without_negative AS (
  SELECT
    doubts.record_key,
    doubts.class,
    doubts.normal
  FROM doubts
  LEFT JOIN texts_of_class
    USING (class, narrow)
  LEFT JOIN texts_of_family
    USING (class, narrow, family)
  LEFT JOIN texts_known
    USING (class, narrow, normal)
  LEFT JOIN texts_known_of_family
    USING (class, narrow, normal, family)
  LEFT JOIN texts_own
    USING (record_key, class, normal)
  WHERE
    doubts.hopeless
    OR COALESCE(texts_of_class.texts, 0) - COALESCE(texts_of_family.texts, 0) - COALESCE(texts_known.texts, 0) + COALESCE(texts_known_of_family.texts, 0) - COALESCE(texts_own.texts, 0) < 1
), verdicts AS (
  SELECT
    anchors.record_key,
    anchors.chunk_key,
    anchors.section_key,
    anchors.text_hash,
    anchors.class,
    anchors.normal,
    anchors.family,
    positive_texts.positives,
    CASE
      WHEN positive_texts.positives IS NULL
      THEN 'no positive'
      WHEN TRUE
      AND positive_texts.first_text = anchors.text_hash
      AND positive_texts.last_text = anchors.text_hash
      THEN 'same text'
      WHEN NOT without_negative.class IS NULL
      THEN 'no negative'
      WHEN NOT dropped.anchor_section_key IS NULL
      THEN 'too few candidates'
    END AS reason
  FROM anchors
  LEFT JOIN positive_texts
    USING (record_key)
  LEFT JOIN without_negative
    ON without_negative.record_key = anchors.record_key
    AND without_negative.class = anchors.class
    AND without_negative.normal = anchors.normal
  LEFT JOIN mined_anchors AS dropped
    ON dropped.mining_key = 0
    AND dropped.anchor_section_key = anchors.section_key
    AND dropped.outcome = 'dropped'
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
