-- name: only
-- Select the rows of one source. The caller inserts the statement of the list.
-- Parameters: $value.
SELECT *
FROM found_list
WHERE source = $value

-- name: pool
-- Return the anchors of a pool by reason. The caller inserts the statement of the counts.
-- Parameters: $source, $split.
SELECT $source AS source, $split AS split, reason AS left_out, anchors
FROM found_list

-- name: records
-- Count the records of the newest version.
SELECT count(*) AS records
FROM records
WHERE removed_version IS NULL

-- name: sources
-- Return the sources with their counts, without their addresses. The caller inserts the statement
-- of the status.
SELECT name, kind, trust, weight, records, sections, chunks, tokens
FROM found_list
