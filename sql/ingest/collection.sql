-- name: create
-- Tables for labels and candidates of a collection, until its records are stored.
CREATE OR REPLACE TEMP TABLE given_labels (
    query VARCHAR NOT NULL,
    document VARCHAR NOT NULL,
    label DOUBLE NOT NULL,
    split VARCHAR,
    file VARCHAR,
    line BIGINT,
    "row" BIGINT NOT NULL,
    place BIGINT NOT NULL
);

CREATE OR REPLACE TEMP TABLE given_candidates (
    query VARCHAR NOT NULL,
    document VARCHAR NOT NULL,
    score DOUBLE NOT NULL
);

CREATE OR REPLACE TEMP TABLE failed_labels (
    "row" BIGINT NOT NULL,
    reason VARCHAR NOT NULL,
    document VARCHAR,
    file VARCHAR,
    line BIGINT
)

-- name: drop
-- Forget labels and candidates.
DROP TABLE IF EXISTS given_labels;

DROP TABLE IF EXISTS given_candidates;

DROP TABLE IF EXISTS failed_labels;

DROP TABLE IF EXISTS found_labels

-- name: add_labels
-- Add a block of labels (Arrow incoming).
INSERT INTO given_labels BY NAME
SELECT *
FROM incoming

-- name: add_candidates
-- Add a block of candidates (Arrow incoming).
INSERT INTO given_candidates BY NAME
SELECT *
FROM incoming

-- name: add_failed
-- Add a block of rows that name no label (Arrow incoming).
INSERT INTO failed_labels BY NAME
SELECT *
FROM incoming

-- name: quarantine
-- Set the rows aside that name no label.
-- Parameters: $source (name), $version.
INSERT INTO quarantine (source, version, "row", reason, document, file, line)
SELECT $source, $version, "row", reason, document, file, line
FROM failed_labels

-- name: conflict
-- The first two labels of one pair that differ, with their places.
-- Rows: one, or none.
SELECT
    one.query, one.document, one.label, one.file, one.line, other.label, other.file, other.line
FROM given_labels AS one
JOIN given_labels AS other ON other.query = one.query AND other.document = one.document
WHERE one.place < other.place AND one.label <> other.label
ORDER BY other.place, one.place
LIMIT 1

-- name: splits_of
-- Splits of a source of documents that are not of every split.
-- Parameters: $source.
-- Rows: in their usual order.
SELECT split
FROM split_counts
WHERE source = $source AND split <> 'every'
ORDER BY list_position(['train', 'validation', 'test'], split)

-- name: set_documents
-- Note which source has the documents of another.
-- Parameters: $source_id, $documents_id.
UPDATE sources
SET documents_id = $documents_id
WHERE source_id = $source_id

-- name: give_splits
-- Give queries the most held out of the splits of their labels, where they have no split.
-- Parameters: $source, $source_id, $unpublished.
INSERT INTO splits (record_key, split, given)
SELECT
    records.record_key, coalesce(min(split) FILTER (split <> 'train'), 'train') AS split, TRUE
FROM records
JOIN (
    SELECT md5_number_lower($source || '/' || query) AS id_hash, min(split) AS split
    FROM given_labels
    WHERE split IS NOT NULL
    GROUP BY query, split
) AS held ON held.id_hash = records.id_hash
WHERE
    records.source_id = $source_id
    AND (records.removed_version IS NULL OR records.removed_version = $unpublished)
    AND records.record_key NOT IN (SELECT record_key FROM splits)
GROUP BY records.record_key

-- name: find
-- For every pair of the files: which sides have a record, and the label of an earlier ingest. The
-- removal of a source removes its labels.
-- Parameters: $source, $documents (names), $first (whether the first label of a pair counts), blank
-- (Arrow: id), of documents without text.
CREATE OR REPLACE TEMP TABLE found_labels AS
WITH pairs AS (
    SELECT
        query, document, min(place) AS place,
        CASE WHEN $first THEN arg_min(label, place) ELSE arg_max(label, place) END AS label
    FROM given_labels
    GROUP BY query, document
),
named AS (
    SELECT
        pairs.*, $source || '/' || query AS anchor_id, $documents || '/' || document AS document_id,
        md5_number_lower($source || '/' || query) AS anchor_hash,
        md5_number_lower($documents || '/' || document) AS document_hash
    FROM pairs
),
before AS (
    SELECT labels.anchor, labels.document, labels.label
    FROM labels
    JOIN named ON named.anchor_hash = labels.anchor AND named.document_hash = labels.document
    WHERE
        labels.annotator = 'qrels'
        OR labels.added_version IN (SELECT version FROM corpus_versions WHERE what = 'remove')
    QUALIFY labels.added_version
        = max(labels.added_version) OVER (PARTITION BY labels.anchor, labels.document)
)
SELECT
    named.*, before.label IS NOT DISTINCT FROM named.label AS is_same,
    anchors.record_key IS NOT NULL AS has_query,
    documents.record_key IS NOT NULL AS has_document,
    CASE
        WHEN anchors.record_key IS NULL THEN 'unknown query'
        WHEN blank.id IS NOT NULL THEN 'document without text'
        WHEN documents.record_key IS NULL THEN 'unknown document'
    END AS lack
FROM named
LEFT JOIN before ON before.anchor = named.anchor_hash AND before.document = named.document_hash
LEFT JOIN records AS anchors
    ON anchors.id_hash = named.anchor_hash AND anchors.removed_version IS NULL
LEFT JOIN records AS documents
    ON documents.id_hash = named.document_hash AND documents.removed_version IS NULL
LEFT JOIN blank ON blank.id = named.document

-- name: fates
-- Counts of the labels of a collection by outcome.
SELECT
    (SELECT count(*) FROM given_labels) AS read,
    count(*) FILTER (is_same) AS same,
    count(*) FILTER (NOT is_same) AS added,
    coalesce(bool_or(has_query), FALSE) AS some_query,
    coalesce(bool_or(has_document), FALSE) AS some_document
FROM found_labels

-- name: lacks
-- Labels without a record, by reason, the first five of each.
-- Rows: by reason and place.
SELECT
    found_labels.lack, count(*) OVER (PARTITION BY found_labels.lack) AS times, given_labels."row",
    given_labels.file, given_labels.line,
    CASE lack WHEN 'unknown query' THEN found_labels.query ELSE found_labels.document END AS value
FROM found_labels
JOIN given_labels ON given_labels.place = found_labels.place
WHERE found_labels.lack IS NOT NULL
QUALIFY row_number() OVER (PARTITION BY found_labels.lack ORDER BY found_labels.place) <= 5
ORDER BY found_labels.lack, found_labels.place

-- name: example
-- The id of one record of a source, without the name of the source.
-- Parameters: $source.
SELECT substr(record_id, length($source) + 2)
FROM live_records
WHERE source = $source
ORDER BY record_key
LIMIT 1

-- name: append
-- Store labels that are new or different, and the ids of records that are not there.
-- Parameters: $version.
INSERT INTO label_ids
SELECT anchor_hash, anchor_id
FROM found_labels
WHERE NOT has_query
UNION
SELECT document_hash, document_id
FROM found_labels
WHERE NOT has_document
EXCEPT
SELECT * FROM label_ids;

INSERT INTO labels
SELECT anchor_hash, document_hash, label, 'qrels', $version
FROM found_labels
WHERE NOT is_same
ORDER BY anchor_hash, document_hash

-- name: withdraw
-- End the labels of a source that its last ingest set and found_labels, the labels of now, lacks.
-- Parameters: $source, $source_id, $version.
INSERT INTO labels
WITH newest AS (
    SELECT anchor, document, label, annotator
    FROM labels
    WHERE
        anchor IN (
            SELECT id_hash FROM records WHERE source_id = $source_id
            UNION ALL
            SELECT hash FROM label_ids WHERE starts_with(id, $source || '/')
        )
    QUALIFY row_number() OVER (
        PARTITION BY anchor, document ORDER BY added_version DESC, label DESC
    ) = 1
)
SELECT anchor, document, NULL, 'qrels', $version
FROM newest
ANTI JOIN found_labels
    ON found_labels.anchor_hash = newest.anchor AND found_labels.document_hash = newest.document
WHERE annotator = 'qrels' AND label IS NOT NULL

-- name: move_queries
-- Give queries whose split came with labels the split that it is now.
-- Parameters: $source, $source_id.
UPDATE splits
SET split = held.split
FROM (
    SELECT
        records.record_key,
        coalesce(min(given_labels.split) FILTER (given_labels.split <> 'train'), 'train') AS split
    FROM given_labels
    JOIN records ON records.id_hash = md5_number_lower($source || '/' || given_labels.query)
    WHERE records.source_id = $source_id AND given_labels.split IS NOT NULL
    GROUP BY records.record_key
) AS held
WHERE splits.record_key = held.record_key AND splits.given AND splits.split <> held.split

-- name: by_label
-- Labels of a collection by value.
-- Rows: the greatest first.
SELECT label, count(*) AS labels
FROM found_labels
GROUP BY label
ORDER BY label DESC

-- name: by_split
-- Live queries of a source by split.
-- Parameters: $source.
-- Rows: in their usual order, those without a split last.
SELECT coalesce(split, 'none') AS split, count(*) AS queries
FROM live_records
WHERE source = $source
GROUP BY live_records.split
ORDER BY list_position(['train', 'validation', 'test'], live_records.split) NULLS LAST

-- name: about
-- Counts of a collection: documents with a label, all documents, queries without a label, queries
-- with labels of several splits. The last counts queries of validation and test with a normalised
-- text that a query of train has, too.
-- Parameters: $source, $documents (names).
WITH asked AS (
    SELECT live_records.id_hash, live_records.split, normalised_hash(sections.text) AS text_hash
    FROM sections
    JOIN live_records ON live_records.record_key = sections.record_key
    WHERE live_records.source = $source AND sections.role = 'anchor'
)
SELECT
    (SELECT count(DISTINCT document) FROM found_labels WHERE has_document) AS labelled,
    (SELECT count(*) FROM live_records WHERE source = $documents) AS documents,
    count(*) FILTER (id_hash NOT IN (SELECT anchor_hash FROM found_labels)) AS unlabelled,
    (
        SELECT count(*)
        FROM (SELECT query FROM given_labels GROUP BY query HAVING count(DISTINCT split) > 1)
    ) AS several,
    count(*) FILTER (
        split IN ('validation', 'test')
        AND text_hash IN (SELECT text_hash FROM asked WHERE split = 'train')
    ) AS leaks
FROM asked

-- name: candidates
-- The candidates of a collection by the ids of their records.
-- Parameters: $source, $documents (names).
SELECT
    $source || '/' || query AS anchor_id, $documents || '/' || document AS negative_id, score
FROM given_candidates
