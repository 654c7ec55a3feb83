-- name: sections
-- The records and positions of wanted sections (Arrow: section_key).
-- Rows: by record id and position.
SELECT sections.section_key, sections.record_key, sections.position, records.id_hash
FROM wanted
JOIN stored_sections AS sections ON sections.section_key = wanted.section_key
JOIN records ON records.record_key = sections.record_key
ORDER BY records.record_id, sections.position, sections.section_key

-- name: anchor_texts
-- The beginnings of the texts of anchors (Arrow asked: row, section_key).
-- Parameters: $characters (so many of each).
-- Rows: by row.
SELECT left(sections.text, $characters) AS text
FROM asked
JOIN sections ON sections.section_key = asked.section_key
ORDER BY asked.row

-- name: threads
-- How many threads this instance may use.
SELECT current_setting('threads')::INTEGER

-- name: own_index
-- Room for indexes of this connection's own, where the corpus is open to read only. Statements find
-- it in the place of the tables of the corpus.
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
-- Forget it.
DROP TABLE text_indexes;

DROP TABLE index_terms;

DROP TABLE index_documents;

DROP TABLE index_postings;

DROP TABLE index_words;

DROP SEQUENCE text_index_keys

-- name: document_counts
-- How many of some documents (Arrow eligible: document) have each term of an index.
-- Parameters: $index.
SELECT index_postings.term_key, count(*) AS document_count
FROM index_postings
JOIN eligible ON eligible.document = index_postings.document
WHERE index_postings.index_key = $index
GROUP BY index_postings.term_key
