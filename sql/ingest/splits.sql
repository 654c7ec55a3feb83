-- name: counts
-- Records by split.
-- Rows: splits in their usual order.
SELECT split, sum(records)::BIGINT AS records
FROM split_counts
WHERE split <> 'every'
GROUP BY split
ORDER BY list_position(['train', 'validation', 'test'], split)

-- name: clear
-- Forget the settings of splits, and all splits except the split of documents.
-- Parameters: $given (whether to forget those that came with labels, too).
DELETE FROM settings
WHERE name = 'splits';

DELETE FROM splits
WHERE split <> 'every' AND ($given OR NOT given)

-- name: set
-- Keep the settings of the splits.
-- Parameters: $value (JSON).
INSERT INTO settings
VALUES ('splits', $value)

-- name: get
-- Settings of the stored splits (JSON); no row before the first split.
SELECT value
FROM settings
WHERE name = 'splits'

-- name: ties
-- The ties between records: their group, and the texts of their anchors.
-- Rows: one a record and tie, unordered.
WITH all_ties AS (
    SELECT record_key, normalised_hash AS tie
    FROM leading_sections
    UNION ALL
    SELECT record_key, md5_number_lower('group' || chr(31) || group_key) AS tie
    FROM records
    WHERE group_key IS NOT NULL
)

SELECT record_key, tie
FROM all_ties
WHERE tie IN (SELECT tie FROM all_ties GROUP BY tie HAVING min(record_key) < max(record_key))

-- name: assign
-- Give every record without a split the split that its group, or else its id, decides: the first 8
-- bytes of MD5(seed 0x1f key), as a fraction of 2^64, against the ratios.
-- Parameters: $seed, $train, $validation (train + validation), $test, $first_record_key (records
-- from it on).
INSERT INTO splits (record_key, split)
SELECT
    record_key,
    CASE
        WHEN u < $train THEN 'train'
        WHEN u < $validation OR $test = 0 THEN 'validation'
        ELSE 'test'
    END AS split
FROM (
    SELECT
        record_key,
        ('0x' || left(md5($seed || chr(31) || coalesce(group_key, record_id)), 16))::UBIGINT
        / 18446744073709551616.0 AS u
    FROM records
    WHERE
        record_key >= $first_record_key
        AND source_id NOT IN (SELECT documents_id FROM sources WHERE documents_id IS NOT NULL)
        AND record_key NOT IN (SELECT record_key FROM splits WHERE record_key >= $first_record_key)
)
ORDER BY record_key

-- name: assign_families
-- The same where equal texts make families: give every record without a split the split of its
-- family. A family in several splits gives the split of its least key. For a new one its group, its
-- text or its id decides. The table families (Arrow: record_key, family) has the records that texts
-- or groups connect.
-- Parameters: $seed, $train, $validation (train + validation), $test.
INSERT INTO splits (record_key, split)
WITH members AS (
    SELECT
        records.record_key, records.group_key, records.record_id, splits.split,
        coalesce(families.family, records.record_key) AS family
    FROM records
    LEFT JOIN families ON families.record_key = records.record_key
    LEFT JOIN splits ON splits.record_key = records.record_key
    WHERE
        records.source_id NOT IN (SELECT documents_id FROM sources WHERE documents_id IS NOT NULL)
        -- Others have a split, and share no family.
        AND (splits.split IS NULL OR families.family IS NOT NULL)
),
texts AS (
    SELECT record_key, min(normalised_hash) AS text_hash
    FROM leading_sections
    WHERE record_key IN (SELECT record_key FROM members WHERE split IS NULL)
    GROUP BY record_key
),
chosen AS (
    SELECT
        members.family,
        arg_min(members.split, members.record_key) AS split,
        ('0x' || left(md5($seed || chr(31) || coalesce(
            min(members.group_key), format('{:016x}', min(texts.text_hash)), min(members.record_id)
        )), 16))::UBIGINT / 18446744073709551616.0 AS u
    FROM members
    LEFT JOIN texts ON texts.record_key = members.record_key
    GROUP BY members.family
    HAVING count(*) > count(members.split)
)

SELECT
    members.record_key,
    CASE
        WHEN chosen.split IS NOT NULL THEN chosen.split
        WHEN chosen.u < $train THEN 'train'
        WHEN chosen.u < $validation OR $test = 0 THEN 'validation'
        ELSE 'test'
    END AS split
FROM members
JOIN chosen ON chosen.family = members.family
WHERE members.split IS NULL
ORDER BY members.record_key

-- name: documents
-- Let documents that have no split belong to every one.
-- Parameters: $first_record_key (records from it on).
INSERT INTO splits (record_key, split)
SELECT record_key, 'every'
FROM records
WHERE
    record_key >= $first_record_key
    AND source_id IN (SELECT documents_id FROM sources)
    AND record_key NOT IN (SELECT record_key FROM splits)
ORDER BY record_key

-- name: families
-- The families (Arrow families: record_key, family) with records in more than one split, and the
-- number of these records from a key on. Also the size of the largest family in the newest version:
-- 1 if every record is its own.
-- Parameters: $first_record_key.
WITH counts AS (
    SELECT
        count(*) FILTER (families.record_key >= $first_record_key) AS newcomers,
        count(live_records.record_key) AS records,
        coalesce(min(nullif(splits.split, 'every')) < max(nullif(splits.split, 'every')), FALSE)
            AS spans
    FROM families
    JOIN splits ON splits.record_key = families.record_key
    LEFT JOIN live_records ON live_records.record_key = families.record_key
    GROUP BY families.family
)

SELECT
    count(*) FILTER (spans) AS spanning,
    coalesce(sum(newcomers) FILTER (spans), 0)::BIGINT AS records,
    greatest(1, max(records)) AS largest
FROM counts

-- name: largest_group
-- The records of the newest version that the largest group has; 1 if none has one.
SELECT greatest(1, max(records)) AS largest
FROM (
    SELECT count(*) AS records
    FROM live_records
    WHERE group_key IS NOT NULL
    GROUP BY group_key
)

-- name: shared_anchors
-- The anchors of validation and of test in the newest version, and the number of them that train
-- has, too.
-- Rows: validation, then test; none for a split without any.
WITH texts AS (
    SELECT live_records.split, leading_sections.normalised_hash AS text_hash
    FROM leading_sections
    JOIN live_records ON live_records.record_key = leading_sections.record_key
)

SELECT
    split,
    count(*) AS anchors,
    count(*) FILTER (text_hash IN (SELECT text_hash FROM texts WHERE split = 'train')) AS shared
FROM texts
WHERE split IN ('validation', 'test')
GROUP BY split
ORDER BY split DESC

-- name: all_given
-- Whether splits came with labels, and no record lacks one.
SELECT
    EXISTS (FROM splits WHERE given)
    AND NOT EXISTS (FROM live_records WHERE split IS NULL)
