-- Which columns of a source's records have a value at all, whatever their version.
-- Parameters: $source_id.
SELECT
    TRUE AS source,
    count(date) > 0 AS date,
    count(group_key) > 0 AS "group",
    coalesce(bool_or(len(taxonomy) > 0), FALSE) AS taxonomy,
    TRUE AS trust
FROM records
WHERE source_id = $source_id
