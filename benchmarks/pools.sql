-- name: sources
INSERT INTO sources (source_id, name, kind, trust, defaults, added_version)
SELECT range + 1, 's' || range, 'csv', .5, 'roles', 1
FROM range($sources)

-- name: versions
INSERT INTO corpus_versions VALUES (1, now()::TIMESTAMP, 'ingest', 's0', NULL)

-- name: records
-- Half of the records have groups of five, and one of twenty topics and of 3,000 dates.
INSERT INTO records
SELECT
    i, 's' || i % $sources || '/' || md5(i::VARCHAR)[:16], 1 + i % $sources, 1, NULL,
    DATE '2015-01-01' + (md5_number_lower('d' || i) % 3000)::INTEGER,
    if(md5_number_lower('h' || i) % 2 = 0, 'g' || (md5_number_lower('g' || i) % ($records // 5)), NULL),
    NULL, MAP {'topic': 't' || (md5_number_lower('t' || i) % 20)}, .5, i, now()::TIMESTAMP, now()::TIMESTAMP, NULL,
    md5_number_lower('s' || i % $sources || '/' || md5(i::VARCHAR)[:16])
FROM range(1, $records + 1) AS r(i)

-- name: splits
INSERT INTO splits (record_key, split) SELECT record_key, if(md5_number_lower('s' || record_key) % 5 = 0, 'test', 'train') FROM records

-- name: sections
-- A tenth of the anchors and a twentieth of the contexts are texts that others have, too.
INSERT INTO _internal.stored_sections
SELECT
    i * 2 - 1 + o, i, o, ['anchor', 'context'][o + 1], 'h',
    ['what is ', 'it is '][o + 1] || md5(k) || ' of ' || md5((i % 1000)::VARCHAR) || ' in the year', 12, NULL, NULL, NULL, 0
FROM (
    SELECT i, o, CASE
        WHEN o = 0 AND md5_number_lower('a' || i) % 10 = 0 THEN 'a' || (md5_number_lower('b' || i) % ($records // 50))
        WHEN o = 1 AND md5_number_lower('c' || i) % 20 = 0 THEN 'c' || (md5_number_lower('e' || i) % ($records // 100))
        ELSE i || '/' || o END AS k
    FROM range(1, $records + 1) AS r(i), range(2) AS q(o)
) ORDER BY i, o

-- name: one anchor text
UPDATE _internal.stored_sections SET text = 'summarize this' WHERE role = 'anchor'

-- name: one anchor text but five
UPDATE _internal.stored_sections SET text = 'summarize this' WHERE role = 'anchor' AND record_key > 5

-- name: one family
UPDATE records SET group_key = if(record_key % ($records // 5) = 0, NULL, 'g')

-- name: one record
UPDATE _internal.stored_sections SET record_key = 1, position = section_key WHERE record_key <= least(5000, $records // 20)

-- name: one positive text
UPDATE _internal.stored_sections SET text = 'it is so' WHERE role = 'context'

-- name: two families
UPDATE records SET group_key = 'g' || record_key % 2

-- name: two families share
UPDATE _internal.stored_sections SET text = 'it is ' || (record_key - 1) // 2 WHERE role = 'context'

-- name: two families in one split
UPDATE splits SET split = 'train'

-- name: chunks
INSERT INTO chunks
SELECT section_key, section_key, record_key, 'window', 0, 0, 0, length(text), 0, 12, md5_number_lower(text)
FROM _internal.stored_sections ORDER BY section_key

-- name: hashes
UPDATE _internal.stored_sections SET normalised_hash = normalised_hash(text)
