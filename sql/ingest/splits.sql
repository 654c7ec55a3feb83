-- name: counts
-- Records by split.
-- Rows: splits in their usual order.
SELECT split, sum(records)::BIGINT AS records
FROM split_counts
WHERE split IS NOT NULL
GROUP BY split
ORDER BY list_position(['train', 'validation', 'test'], split)

-- name: clear
-- Forget all splits and their settings.
DELETE FROM settings
WHERE name = 'splits';

DELETE FROM splits

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

-- name: assign
-- Give every record from a key on that has no split its split: the first 8 bytes of
-- MD5(seed 0x1f key), as a fraction of 2^64, against the ratios.
-- Parameters: $first_record_key, $seed, $train, $validation (train + validation), $test.
INSERT INTO splits
SELECT
    record_key,
    CASE
        WHEN u < $train THEN 'train'
        WHEN u < $validation OR $test = 0 THEN 'validation'
        ELSE 'test'
    END
FROM (
    SELECT
        record_key,
        ('0x' || left(md5($seed || chr(31) || coalesce(group_key, record_id)), 16))::UBIGINT
            / 18446744073709551616.0 AS u
    FROM records
    WHERE record_key >= $first_record_key
)
WHERE record_key NOT IN (SELECT record_key FROM splits WHERE record_key >= $first_record_key)
