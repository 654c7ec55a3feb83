-- name: live
-- The records that the versions of a run have, with their sources and the versions they came with.
-- Parameters: $versions.
-- Rows: in any order.
SELECT sources.name AS source, records.added_version, records.id_hash, records.content_hash
FROM records
JOIN sources ON sources.source_id = records.source_id
WHERE EXISTS (
    SELECT 1
    FROM (SELECT unnest($versions::BIGINT[]) AS version) AS pinned
    WHERE is_live(records.added_version, records.removed_version, pinned.version)
)

-- name: ids
-- The ids of some records, by their hashes.
-- Parameters: asked (Arrow: id_hash).
-- Rows: by source and id.
SELECT sources.name AS source, records.record_id, records.id_hash
FROM records
JOIN sources ON sources.source_id = records.source_id
WHERE records.id_hash IN (SELECT id_hash FROM asked)
ORDER BY ALL

-- name: sources
-- How the sources of a version were read, with the last settings of their gates, as JSON.
-- Parameters: $version.
-- Rows: by name.
SELECT
    sources.name, sources.trust, sources.mapping::VARCHAR AS mapping,
    documents.name AS documents, gates.settings AS gates
FROM sources
LEFT JOIN sources AS documents ON documents.source_id = sources.documents_id
LEFT JOIN (
    SELECT
        source_id,
        arg_max(json_object(
            'quality', quality, 'where', condition, 'size_mb', size_mb, 'limit', row_limit
        )::VARCHAR, acquisition_id) AS settings
    FROM acquisitions
    GROUP BY source_id
) AS gates ON gates.source_id = sources.source_id
WHERE sources.added_version <= $version
ORDER BY sources.name

-- name: versions
-- The verb that made each version, up to one version.
-- Parameters: $version.
-- Rows: in their order.
SELECT version, what, source
FROM corpus_versions
WHERE version <= $version
ORDER BY version

-- name: labels
-- How many labels of pairs a version has, and a sum of them that no order changes.
-- Parameters: $version.
SELECT
    count(*) AS labels,
    coalesce(bit_xor(
        md5_number_lower(concat_ws(' ', anchor, document, label, added_version))
    ), 0) AS total
FROM labels
WHERE added_version <= $version

-- name: pass_over
-- Add a version in place of one that is not made again, so later ones keep their numbers.
-- Parameters: $version, $what.
INSERT INTO corpus_versions
VALUES ($version, now()::TIMESTAMP, $what, NULL, NULL)
