-- name: only
-- Those rows of a list (put in its place) that are of one source.
-- Parameters: $value.
SELECT *
FROM found_list
WHERE source = $value

-- name: pool
-- How many anchors a pool has, whose counts are put in the place of a list.
-- Parameters: $source, $split.
SELECT $source AS source, $split AS split, reason AS left_out, anchors
FROM found_list

-- name: records
-- How many records the newest version has.
SELECT count(*) AS records
FROM records
WHERE removed_version IS NULL

-- name: sources
-- The sources with their counts, which are put in the place of a list, but not where they were read.
SELECT name, kind, trust, weight, records, sections, chunks, tokens
FROM found_list
