-- What identifies the records of a version: how many, of what content, under which keys.
-- Parameters: $version.
SELECT
    count(*) AS records,
    coalesce(bit_xor(content_hash), 0) AS contents,
    coalesce(sum((content_hash % 1000003)::HUGEINT * record_key), 0) AS places
FROM records
WHERE is_live(added_version, removed_version, $version)
