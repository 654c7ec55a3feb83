-- What identifies the records of one source and split of a version.
-- Parameters: $source, $split, $version.
SELECT
    count(*) AS records,
    coalesce(bit_xor(records.content_hash), 0) AS contents,
    coalesce(sum((records.content_hash % 1000003)::HUGEINT * records.record_key), 0) AS places
FROM records
JOIN sources ON sources.source_id = records.source_id
JOIN splits ON splits.record_key = records.record_key
WHERE
    sources.name = $source
    AND splits.split = $split
    AND is_live(records.added_version, records.removed_version, $version)
