-- name: lost_records
-- Records whose source is missing.
-- Rows: one, their number.
SELECT count(*)
FROM records
WHERE source_id NOT IN (SELECT source_id FROM sources)

-- name: lost_sections
-- Sections whose record is missing.
-- Rows: one, their number.
SELECT count(*)
FROM stored_sections AS sections
WHERE record_key NOT IN (SELECT record_key FROM records)

-- name: lost_chunks
-- Chunks whose section is missing, or is of another record.
-- Rows: one, their number.
SELECT count(*)
FROM chunks
LEFT JOIN stored_sections AS sections USING (section_key)
WHERE sections.record_key IS DISTINCT FROM chunks.record_key

-- name: wrong_spans
-- Chunks whose span exceeds the text of their section. Removed records without texts do not count.
-- Rows: one, their number.
SELECT count(*)
FROM chunks
JOIN sections USING (section_key)
JOIN records ON records.record_key = chunks.record_key
WHERE
    (
        chunks.start < 0
        OR chunks.length < 1
        OR chunks.start::BIGINT + chunks.length > length(sections.text)
    )
    AND (records.content_hash <> 0 OR records.removed_version IS NULL)

-- name: unchunked_sections
-- Sections that have text and no window.
-- Rows: one, their number.
SELECT count(*)
FROM stored_sections AS sections
WHERE
    token_count > 0
    AND section_key NOT IN (SELECT section_key FROM chunks WHERE kind = 'window')

-- name: wrong_token_counts
-- Sections whose token count cannot be right: below 0, smaller than the count of a chunk, or not above
-- its first token. (The last chunk may have more tokens when encoded alone than are left.)
-- Rows: one, their number.
SELECT count(*)
FROM stored_sections AS sections
WHERE
    token_count < 0
    OR section_key IN (
        SELECT chunks.section_key
        FROM chunks
        JOIN stored_sections AS sections USING (section_key)
        WHERE greatest(chunks.start_token + 1, chunks.token_count) > sections.token_count
    )

-- name: unsplit_records
-- Live records without a split, in a corpus that has splits.
-- Rows: one, their number.
SELECT count(*)
FROM live_records
WHERE split IS NULL AND EXISTS (SELECT name FROM settings WHERE name = 'splits')

-- name: repeated_splits
-- Records with more than one split.
-- Rows: one, their number.
SELECT count(*)
FROM (SELECT record_key FROM splits GROUP BY record_key HAVING count(*) > 1)

-- name: repeated_ids
-- Ids that several live records have.
-- Rows: one, their number.
SELECT count(*)
FROM (SELECT record_id FROM live_records GROUP BY record_id HAVING count(*) > 1)

-- name: uncommitted_records
-- Records of a version that was never committed, without unfinished ingests.
-- Rows: one, their number.
SELECT count(*)
FROM records
WHERE
    added_version NOT IN (SELECT version FROM corpus_versions)
    AND (
        added_version <> 9223372036854775807  -- marks what is not yet published
        OR source_id NOT IN (SELECT source_id FROM unfinished_ingests)
    )
