-- name: sections
-- The records and positions of wanted sections (Arrow: section_key).
-- Rows: by record id and position.
SELECT sections.section_key, sections.record_key, sections.position, records.id_hash
FROM wanted
JOIN stored_sections AS sections ON sections.section_key = wanted.section_key
JOIN records ON records.record_key = sections.record_key
ORDER BY records.record_id, sections.position, sections.section_key

-- name: anchor_texts
-- The beginnings of the texts of anchors (Arrow anchors: row, section_key).
-- Parameters: $characters (the length of a beginning).
-- Rows: by row.
SELECT left(sections.text, $characters) AS text
FROM anchors
JOIN sections ON sections.section_key = anchors.section_key
ORDER BY anchors.row

-- name: threads
-- The number of threads of this instance.
SELECT current_setting('threads')::INTEGER

-- name: own_index
-- Create temporary tables for indexes, if the corpus is open read-only. Statements find them before
-- the tables of the corpus.
CREATE OR REPLACE TEMP TABLE text_indexes AS
SELECT *
FROM _internal.text_indexes
LIMIT 0;

CREATE OR REPLACE TEMP TABLE index_terms AS
SELECT *
FROM _internal.index_terms
LIMIT 0;

CREATE OR REPLACE TEMP TABLE index_documents AS
SELECT *
FROM _internal.index_documents
LIMIT 0;

CREATE OR REPLACE TEMP TABLE index_postings AS
SELECT *
FROM _internal.index_postings
LIMIT 0;

CREATE OR REPLACE TEMP TABLE index_words AS
SELECT *
FROM _internal.index_words
LIMIT 0;

CREATE OR REPLACE TEMP SEQUENCE text_index_keys

-- name: drop_own_index
-- Drop these tables.
DROP TABLE text_indexes;

DROP TABLE index_terms;

DROP TABLE index_documents;

DROP TABLE index_postings;

DROP TABLE index_words;

DROP SEQUENCE text_index_keys

-- name: document_counts
-- The number of some documents (Arrow eligible: document) that have each term of an index.
-- Parameters: $index.
SELECT index_postings.term_key, count(*) AS document_count
FROM index_postings
JOIN eligible ON eligible.document = index_postings.document
WHERE index_postings.index_key = $index
GROUP BY index_postings.term_key
