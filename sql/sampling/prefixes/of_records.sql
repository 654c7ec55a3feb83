-- How many records of a version have a prefix of their own, and how long these are, all together
-- and by place: what tells them from those of another corpus.
-- Parameters: $version.
SELECT
    count(*) AS records,
    coalesce(sum(strlen(record_prefixes.definition)), 0)::BIGINT AS lengths,
    coalesce(
        sum((records.record_key % 1000003)::HUGEINT * strlen(record_prefixes.definition)), 0
    )::VARCHAR AS places
FROM record_prefixes
JOIN records ON records.record_key = record_prefixes.record_key
WHERE is_live(records.added_version, records.removed_version, $version)
