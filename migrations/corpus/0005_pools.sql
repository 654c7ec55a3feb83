-- What pools, and the guards of mining, say by name: a printed pool is short, and the duckdb CLI
-- runs it on the corpus.
CREATE MACRO is_live(added_version, removed_version, version) AS
    added_version <= version AND coalesce(removed_version > version, TRUE);
COMMENT ON MACRO is_live IS
    'Whether what one version added and another (or none, NULL) removed is there at a version';

CREATE MACRO normalised_hash(text) AS md5_number_lower(
    lower(strip_accents(nfc_normalize(trim(regexp_replace(text, '\s+', ' ', 'g')))))
);
COMMENT ON MACRO normalised_hash IS
    'Lower 64 bits of the MD5 of a text but for case, accents, composition and white space';

CREATE MACRO only_one(x) AS CASE WHEN min(x) = max(x) THEN min(x) END;
COMMENT ON MACRO only_one IS 'The value of a column in a group where it has one only, else NULL';

CREATE MACRO only_of_sums(many, total, squares) AS
    CASE WHEN many * squares = total * total THEN (total // many)::BIGINT END;
COMMENT ON MACRO only_of_sums IS
    'The value of so many numbers, told by their sum and that of their squares, if all have it';

CREATE VIEW section_hashes AS
SELECT section_key, text_hash AS normalised_hash
FROM text_hashes
UNION ALL
-- Sections that came after the last mining are not in text_hashes yet.
SELECT section_key, normalised_hash(text) AS normalised_hash
FROM sections
WHERE section_key NOT IN (SELECT section_key FROM text_hashes);
COMMENT ON VIEW section_hashes IS 'The hash of the normalised text of every section';

CREATE VIEW record_families AS
SELECT records.record_key, coalesce(families.family, records.record_key) AS family
FROM records
LEFT JOIN (
    SELECT source_id, group_key, min(record_key) AS family
    FROM records
    WHERE group_key IS NOT NULL
    GROUP BY source_id, group_key
) AS families
    ON families.source_id = records.source_id AND families.group_key = records.group_key;
COMMENT ON VIEW record_families IS
    'The family of every record: its group, named by the least key of its records, else itself';

CREATE MACRO split_chunks(of_split, at_version) AS TABLE
SELECT
    chunks.chunk_key, chunks.record_key, chunks.section_key, chunks.text_hash, chunks.kind,
    chunks.window_index, sections.position, sections.role, sections.heading, sections.text,
    sections.token_count, records.record_id, records.date, records.group_key, records.taxonomy,
    records.meta, records.trust, records.created_at, records.updated_at, sources.name AS source
FROM chunks
JOIN sections ON sections.section_key = chunks.section_key
JOIN records ON records.record_key = chunks.record_key
JOIN splits ON splits.record_key = chunks.record_key
JOIN sources ON sources.source_id = records.source_id
WHERE
    splits.split = of_split
    AND is_live(records.added_version, records.removed_version, at_version);
COMMENT ON MACRO TABLE split_chunks IS
    'The chunks of a split at a version, with all that selectors and conditions can look at';

CREATE MACRO guarded_chunks(of_split, at_version) AS TABLE
SELECT found.*, record_families.family, section_hashes.normalised_hash
FROM split_chunks(of_split, at_version) AS found
JOIN record_families ON record_families.record_key = found.record_key
JOIN section_hashes ON section_hashes.section_key = found.section_key;
COMMENT ON MACRO TABLE guarded_chunks IS
    'The chunks of a split at a version, with their families and the hashes of normalised texts';
