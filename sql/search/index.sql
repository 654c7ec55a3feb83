-- name: next_key
-- Take the number of a new index.
SELECT nextval('text_index_keys')

-- name: sections
-- The live sections of a source and split, with a length in characters: the end of the last window.
-- (To measure long texts, DuckDB would have to read thousands of them into memory at a time.)
-- Parameters: $source, $split.
-- Rows: in the order of documents: by hash of the record id, then position.
WITH covered AS (
    SELECT sections.section_key, md5(records.record_id) AS place, sections.position
    FROM stored_sections AS sections
    JOIN records ON records.record_key = sections.record_key
    JOIN sources ON sources.source_id = records.source_id
    JOIN splits ON splits.record_key = records.record_key
    WHERE records.removed_version IS NULL AND sources.name = $source AND splits.split = $split
),

spans AS (
    SELECT chunks.section_key, max(chunks.start + chunks.length) AS characters
    FROM chunks
    SEMI JOIN covered ON covered.section_key = chunks.section_key
    GROUP BY chunks.section_key
)

SELECT covered.section_key, coalesce(spans.characters, 0)::BIGINT AS characters
FROM covered
LEFT JOIN spans ON spans.section_key = covered.section_key
ORDER BY covered.place, covered.position

-- name: add
-- Store the row of an index.
-- Parameters: $index, $source, $split, $terms (JSON), $content, $version, $documents, $tokens.
INSERT INTO text_indexes
SELECT
    $index, source_id, $split, $terms, $content, $version, $documents, $tokens,
    now()::TIMESTAMP
FROM sources
WHERE name = $source AND removed_version IS NULL

-- name: texts
-- The texts of some sections (Arrow wanted: section_key) with keys from $low to $high.
-- Parameters: $low, $high.
-- Rows: by section_key.
SELECT sections.text
FROM sections
SEMI JOIN wanted ON wanted.section_key = sections.section_key
WHERE sections.section_key BETWEEN $low AND $high
ORDER BY sections.section_key

-- name: append_postings
-- Store postings (Arrow: term_key, document, frequency).
-- Parameters: $index.
INSERT INTO index_postings
SELECT $index, term_key, document, frequency
FROM new_postings

-- name: append_terms
-- Store terms (Arrow: term_key, term, document_count).
-- Parameters: $index.
INSERT INTO index_terms
SELECT $index, term_key, term, document_count
FROM new_terms

-- name: append_words
-- Store the words of an index (Arrow: word, term_key), with the keys of their terms.
-- Parameters: $index.
INSERT INTO index_words
SELECT $index, word, term_key
FROM new_words

-- name: delete_words
-- Delete the words of an index.
-- Parameters: $index.
DELETE FROM index_words
WHERE index_key = $index

-- name: append_documents
-- Store documents (Arrow: document, section_key, length).
-- Parameters: $index.
INSERT INTO index_documents
SELECT $index, document, section_key, length
FROM new_documents

-- name: delete
-- Delete the row of an index.
-- Parameters: $index.
DELETE FROM text_indexes
WHERE index_key = $index

-- name: delete_terms
-- Delete the terms of an index.
-- Parameters: $index.
DELETE FROM index_terms
WHERE index_key = $index

-- name: delete_documents
-- Delete the documents of an index.
-- Parameters: $index.
DELETE FROM index_documents
WHERE index_key = $index

-- name: delete_postings
-- Delete the postings of an index.
-- Parameters: $index.
DELETE FROM index_postings
WHERE index_key = $index

-- name: pairs
-- Sources and splits with records at the newest version.
-- Parameters: $source (NULL for all), $split (NULL for all).
-- Rows: by source, then split.
SELECT DISTINCT sources.name AS source, splits.split
FROM records
JOIN sources ON sources.source_id = records.source_id
JOIN splits ON splits.record_key = records.record_key
WHERE
    records.removed_version IS NULL
    AND sources.name = coalesce($source, sources.name)
    AND in_split(splits.split, coalesce($split, splits.split))
ORDER BY sources.name, splits.split

-- name: stored
-- The stored indexes.
-- Parameters: $source (NULL for all), $split (NULL for all).
-- Rows: by source, then split.
SELECT
    text_indexes.index_key, sources.name AS source, text_indexes.split, text_indexes.terms,
    text_indexes.content
FROM text_indexes
JOIN sources ON sources.source_id = text_indexes.source_id
WHERE
    sources.name = coalesce($source, sources.name)
    AND in_split(text_indexes.split, coalesce($split, text_indexes.split))
ORDER BY sources.name, text_indexes.split, text_indexes.index_key

-- name: get_settings
-- The settings of text analysis (JSON); no row for the defaults.
SELECT value
FROM settings
WHERE name = 'terms'

-- name: set_settings
-- Store the settings of text analysis.
-- Parameters: $value (JSON).
DELETE FROM settings
WHERE name = 'terms';

INSERT INTO settings
VALUES ('terms', $value)

-- name: postings
-- The postings of some documents of an index: from $low to below $high.
-- Parameters: $index, $low, $high.
-- Rows: by term_key, then document.
SELECT term_key, document, frequency
FROM index_postings
WHERE index_key = $index AND document >= $low AND document < $high
ORDER BY term_key, document

-- name: documents
-- The documents of an index.
-- Parameters: $index.
-- Rows: by document.
SELECT document, section_key, length
FROM index_documents
WHERE index_key = $index
ORDER BY document

-- name: terms
-- The vocabulary of an index.
-- Parameters: $index.
SELECT term, term_key
FROM index_terms
WHERE index_key = $index

-- name: size
-- The number of terms of an index.
-- Parameters: $index.
SELECT count(*)
FROM index_terms
WHERE index_key = $index
