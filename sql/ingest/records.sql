-- name: contents
-- The identity of the records of each source and split of a version.
-- Parameters: $source, $split, $version. A source or split of NULL means all.
SELECT
    sources.name AS source,
    splits.split,
    count(*) AS records,
    bit_xor(records.content_hash) AS contents,
    sum((records.content_hash % 1000003)::HUGEINT * records.record_key) AS places
FROM records
JOIN sources ON sources.source_id = records.source_id
JOIN splits ON splits.record_key = records.record_key
WHERE
    coalesce(sources.name = $source, TRUE)
    AND coalesce(in_split(splits.split, $split), TRUE)
    AND is_live(records.added_version, records.removed_version, $version)
GROUP BY sources.name, splits.split

-- name: append_sections
-- Append new_sections (Arrow), without the texts that lie in files. `plain` is the text without
-- accents, or NULL; `odd_spaces` tells whether its spaces are not single ones.
INSERT INTO stored_sections BY NAME
SELECT
    section_key, record_key, position, role, heading, token_count, file_key, file_row, item,
    CASE WHEN file_key IS NULL THEN text END AS text,
    md5_number_lower(
        lower(CASE WHEN plain IS NULL THEN unaccented(trimmed) ELSE trimmed END)
    ) AS normalised_hash
-- DuckDB evaluates an expression that occurs twice once, but not within a CASE.
FROM (SELECT *, trimmed(spaced) AS trimmed FROM (
    SELECT
        *,
        CASE
            WHEN odd_spaces THEN single_spaced(coalesce(plain, text))
            ELSE coalesce(plain, text)
        END AS spaced
    FROM new_sections
))

-- name: remove_records
-- Mark the records of a source as removed; returns their number.
-- Parameters: $source_id, $version.
UPDATE records
SET removed_version = $version
WHERE source_id = $source_id AND removed_version IS NULL

-- name: remove_source
-- Mark a source as removed.
-- Parameters: $source_id, $version.
UPDATE sources
SET removed_version = $version
WHERE source_id = $source_id

-- name: named_by
-- The live sources that have a source for their documents.
-- Parameters: $source_id.
-- Rows: by name.
SELECT name
FROM sources
WHERE documents_id = $source_id AND removed_version IS NULL
ORDER BY name

-- name: own_documents
-- The documents of a source that no other live source has.
-- Parameters: $source_id.
SELECT documents.source_id
FROM sources
JOIN sources AS documents ON documents.source_id = sources.documents_id
WHERE
    sources.source_id = $source_id
    AND documents.removed_version IS NULL
    AND documents.source_id NOT IN (
        SELECT documents_id
        FROM sources
        WHERE source_id <> $source_id AND removed_version IS NULL AND documents_id IS NOT NULL
    )

-- name: remove_labels
-- Take back the labels of anchors that a version removed with their source.
-- Parameters: $source_id, $version.
INSERT INTO labels
SELECT anchor, document, NULL AS label, NULL AS annotator, $version AS added_version
FROM labels
WHERE
    anchor IN (
        SELECT id_hash FROM records WHERE source_id = $source_id AND removed_version = $version
    )
GROUP BY anchor, document
HAVING newest_label(label, added_version) IS NOT NULL
ORDER BY anchor, document

-- name: live_sources
-- Sources of the newest version.
-- Rows: by source_id.
SELECT source_id, name, kind, uri, trust, defaults, mapping
FROM sources
WHERE removed_version IS NULL
ORDER BY source_id

-- name: version
-- The newest committed version; 0 when there is none.
SELECT coalesce(max(version), 0)
FROM corpus_versions

-- name: add_version
-- Note a committed change of the records.
-- Parameters: $version, $what (ingest or remove), $source (its name), $report (JSON).
INSERT INTO corpus_versions
VALUES ($version, now()::TIMESTAMP, $what, $source, $report)

-- name: fingerprint
-- The identity of the records of a version: sums over their number, content and keys.
-- Parameters: $version.
SELECT
    count(*) AS records,
    coalesce(bit_xor(content_hash), 0) AS contents,
    coalesce(sum((content_hash % 1000003)::HUGEINT * record_key), 0) AS places
FROM records
WHERE is_live(added_version, removed_version, $version)

-- name: add_source
-- Add a source that is not yet published; returns its id.
-- Parameters: $name, $kind, $uri, $trust (0.5 where it is NULL), $defaults, $mapping (JSON),
-- $recipes (JSON; NULL or an empty list for none), $weight, $unpublished.
INSERT INTO sources (
    source_id, name, kind, uri, trust, defaults, added_version, removed_version, mapping, recipes,
    weight
)
SELECT
    greatest(max(source_id), last_key('source')) + 1, $name, $kind, $uri, coalesce($trust, 0.5),
    $defaults, $unpublished, $unpublished, $mapping, nullif($recipes, '[]')::JSON, $weight
FROM sources
RETURNING source_id

-- name: suited
-- Which default recipes suit a source, by the roles of sections of the records that a version adds,
-- or of all.
-- Parameters: $source_id, $version, $all.
SELECT
    CASE
        WHEN NOT coalesce(bool_or(role = 'anchor'), FALSE) THEN 'text'
        WHEN bool_or(role = 'rejected') THEN 'ready'
        ELSE 'roles'
    END AS defaults
FROM stored_sections
JOIN records USING (record_key)
WHERE source_id = $source_id AND removed_version IS NULL AND ($all OR added_version = $version)

-- name: update_source
-- Note the origin of a known source. Text-only rows added to a source with anchors leave its richer
-- default recipes, unless it has a new mapping.
-- Parameters: $name, $kind, $uri, $trust, $weight (NULL keeps the old one), $defaults, $mapping
-- (JSON), $recipes (JSON; NULL keeps the old ones, an empty list takes them away), $remap.
UPDATE sources
SET
    kind = $kind,
    uri = $uri,
    trust = coalesce($trust, trust),
    weight = coalesce($weight, weight),
    mapping = coalesce($mapping, mapping),
    defaults = CASE
        WHEN $remap THEN $defaults
        WHEN $defaults = 'text' THEN defaults
        ELSE $defaults
    END,
    recipes = nullif(coalesce($recipes, recipes::VARCHAR), '[]')::JSON
WHERE name = $name AND removed_version IS NULL

-- name: remove_the_rest
-- Mark records of a source as removed that are older than a version and not in kept (Arrow:
-- record_id). Returns their number.
-- Parameters: $source_id, $version.
UPDATE records
SET removed_version = $version
WHERE
    source_id = $source_id
    AND removed_version IS NULL
    AND added_version < $version
    AND record_id NOT IN (SELECT record_id FROM kept)

-- name: count_the_rest
-- How many records of a source that were there before a version are not in the table kept (Arrow:
-- record_id), and live.
-- Parameters: $source_id, $version.
SELECT count(*)
FROM records
WHERE
    source_id = $source_id
    AND removed_version IS NULL
    AND added_version < $version
    AND record_id NOT IN (SELECT record_id FROM kept)

-- name: append_records
-- Append new_records (Arrow).
-- Parameters: $source_id, $version, $removed_version (NULL, or that of unpublished records),
-- $trust (of the source, for records without their own).
INSERT INTO records
SELECT
    record_key, record_id, $source_id, $version, $removed_version, date, group_key, taxonomy, meta,
    coalesce(trust, $trust), content_hash,
    coalesce(created_at, now()::TIMESTAMP), coalesce(updated_at, created_at, now()::TIMESTAMP),
    label, md5_number_lower(record_id)
FROM new_records

-- name: labels
-- How many records of a source were judged which way, and the least and greatest label.
-- Parameters: $source_id.
SELECT
    count(*) FILTER (label = 1) AS positive, count(*) FILTER (label = 0) AS negative,
    count(label) AS labelled, min(label) AS least, max(label) AS greatest
FROM records
WHERE source_id = $source_id AND removed_version IS NULL

-- name: came_back
-- The number of records that a version adds to a source after gates had removed them.
-- Parameters: $source_id, $version.
WITH removed AS (
    SELECT old.record_id
    FROM records AS old
    JOIN corpus_versions AS v ON v.version = old.removed_version
    WHERE old.source_id = $source_id AND v.what IN ('judge', 'deduplicate', 'decontaminate')
)
SELECT count(*) AS records
FROM records AS new
SEMI JOIN removed ON removed.record_id = new.record_id
WHERE new.source_id = $source_id AND new.added_version = $version

-- name: rearranged
-- Note new splits of records, or new chunks: data derived from the old chunks is not valid any
-- more.
INSERT INTO settings
SELECT 'rearranged', json_object('times', coalesce(max((value ->> 'times')::BIGINT), 0) + 1)
FROM settings
WHERE name = 'rearranged';

DELETE FROM settings
WHERE
    name = 'rearranged'
    AND (value ->> 'times')::BIGINT < (
        SELECT max((value ->> 'times')::BIGINT) FROM settings WHERE name = 'rearranged'
    )

-- name: known_ids
-- The ids of a source's live records, and of records that the same ingest has stored.
-- Parameters: $prefix (name and slash), $unpublished (marks these), $anew (whether live records are
-- passed over).
-- Rows: unordered.
SELECT record_id
FROM records
WHERE
    (removed_version = $unpublished OR (removed_version IS NULL AND NOT $anew))
    AND starts_with(record_id, $prefix)
