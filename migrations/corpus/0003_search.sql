-- Search in plain SQL, from the duckdb CLI as well: no function of an extension is needed here.
CREATE SEQUENCE text_index_keys;
COMMENT ON SEQUENCE text_index_keys IS 'Numbers of full-text indexes';

CREATE MACRO words(text) AS
    regexp_extract_all(lower(strip_accents(text)), '[\p{L}\p{N}]+');
COMMENT ON MACRO words IS
    'The words of a text as an index has them by default, not stemmed: words(''Red Foxes'')';

-- BM25 as match_bm25 of the fts extension has it (k = 1.2, b = 0.75, log10), with the documents of
-- several indexes as one collection. The parts of a score are added as integers (2^-56), so that it
-- is the same to the last bit whatever order they are added in.
CREATE MACRO ranked_sections(wanted, k) AS TABLE
WITH scope AS (
    SELECT place.index_key, place.terms AS asked
    FROM (SELECT unnest(wanted) AS place)
),
totals AS (
    SELECT
        sum(text_indexes.documents)::DOUBLE AS documents,
        sum(text_indexes.tokens) / sum(text_indexes.documents) AS mean_length
    FROM text_indexes
    SEMI JOIN scope ON scope.index_key = text_indexes.index_key
),
found AS (
    SELECT index_terms.index_key, index_terms.term_key, index_terms.term, index_terms.document_count
    FROM index_terms
    JOIN (SELECT DISTINCT index_key, unnest(asked) AS term FROM scope) AS asked_terms
        ON asked_terms.index_key = index_terms.index_key AND asked_terms.term = index_terms.term
),
weights AS (
    SELECT
        found.term,
        log10(
            (any_value(totals.documents) - sum(found.document_count) + 0.5)
            / (sum(found.document_count) + 0.5) + 1
        ) AS idf
    FROM found
    CROSS JOIN totals
    GROUP BY found.term
),
scores AS MATERIALIZED (
    SELECT
        index_postings.index_key,
        index_postings.document,
        sum(
            round(
                72057594037927936 * weights.idf * (index_postings.frequency * 2.2::DOUBLE)
                / (
                    index_postings.frequency
                    + 1.2::DOUBLE * (
                        0.25::DOUBLE
                        + 0.75::DOUBLE * (index_documents.length / totals.mean_length)
                    )
                )
            )::BIGINT
        )::DOUBLE / 72057594037927936 AS score
    FROM index_postings
    JOIN found
        ON found.index_key = index_postings.index_key
        AND found.term_key = index_postings.term_key
    JOIN weights ON weights.term = found.term
    JOIN index_documents
        ON index_documents.index_key = index_postings.index_key
        AND index_documents.document = index_postings.document
    CROSS JOIN totals
    GROUP BY index_postings.index_key, index_postings.document
),
best AS (
    SELECT index_key, document, score
    FROM scores
    -- Before the join with texts; what ties with the last is kept, for ids decide among ties.
    WHERE score >= (SELECT min(score) FROM (SELECT score FROM scores ORDER BY score DESC LIMIT k))
)
SELECT
    live_records.record_id, best.score, sections.text, live_records.source, live_records.split,
    sections.position, sections.role, best.index_key
FROM best
JOIN index_documents
    ON index_documents.index_key = best.index_key AND index_documents.document = best.document
JOIN sections ON sections.section_key = index_documents.section_key
JOIN live_records ON live_records.record_key = sections.record_key
ORDER BY best.score DESC, live_records.record_id, sections.position
LIMIT k;
COMMENT ON MACRO TABLE ranked_sections IS
    'The k best sections for terms of each index: [{''index_key'': 1, ''terms'': [''fox'']}]';

CREATE MACRO search_terms(terms, k := 10, source := NULL, split := NULL) AS TABLE
WITH asked AS (
    SELECT terms AS asked_terms, source AS asked_source, split AS asked_split
)
SELECT record_id, score, text
FROM ranked_sections(
    (
        SELECT list({'index_key': text_indexes.index_key, 'terms': asked.asked_terms})
        FROM text_indexes
        JOIN sources ON sources.source_id = text_indexes.source_id
        CROSS JOIN asked
        WHERE
            sources.removed_version IS NULL
            AND sources.name = coalesce(asked.asked_source, sources.name)
            AND text_indexes.split = coalesce(asked.asked_split, text_indexes.split)
    ),
    k
);
COMMENT ON MACRO TABLE search_terms IS
    'The k best sections for terms, as they are in the index: FROM search_terms([''red'', ''fox''])';
