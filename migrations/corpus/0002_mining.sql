-- Full-text indexes, and hard negatives mined with them. An index is rebuilt when its content has
-- changed; what was mined stays, superseded, for the runs pinned to it.
DROP TABLE negatives;

CREATE TABLE text_indexes (
    index_key INTEGER NOT NULL,
    source_id INTEGER NOT NULL,
    split VARCHAR NOT NULL,
    terms JSON NOT NULL,
    content VARCHAR NOT NULL,
    corpus_version BIGINT NOT NULL,
    documents BIGINT NOT NULL,
    tokens BIGINT NOT NULL,
    built_at TIMESTAMP NOT NULL
);
COMMENT ON TABLE text_indexes IS 'Full-text indexes: one of every source and split, over all its sections';
COMMENT ON COLUMN text_indexes.index_key IS 'Counts from 1, never used again';
COMMENT ON COLUMN text_indexes.source_id IS 'The source';
COMMENT ON COLUMN text_indexes.split IS 'The split';
COMMENT ON COLUMN text_indexes.terms IS 'How text became terms: stemmer, stop words and what separates tokens';
COMMENT ON COLUMN text_indexes.content IS 'Fingerprint of the records it was made from';
COMMENT ON COLUMN text_indexes.corpus_version IS 'Corpus version it was made at';
COMMENT ON COLUMN text_indexes.documents IS 'Sections it covers';
COMMENT ON COLUMN text_indexes.tokens IS 'Tokens of all of them';
COMMENT ON COLUMN text_indexes.built_at IS 'UTC';

CREATE TABLE index_terms (
    index_key INTEGER NOT NULL,
    term_key INTEGER NOT NULL,
    term VARCHAR NOT NULL,
    document_count INTEGER NOT NULL
);
COMMENT ON TABLE index_terms IS 'The vocabulary of each index';
COMMENT ON COLUMN index_terms.index_key IS 'The index';
COMMENT ON COLUMN index_terms.term_key IS '0, 1, … within the index';
COMMENT ON COLUMN index_terms.term IS 'The term: a token in lower case, without accents, stemmed';
COMMENT ON COLUMN index_terms.document_count IS 'Documents that have it';

CREATE TABLE index_documents (
    index_key INTEGER NOT NULL,
    document INTEGER NOT NULL,
    section_key BIGINT NOT NULL,
    length INTEGER NOT NULL
);
COMMENT ON TABLE index_documents IS 'The documents of each index: sections';
COMMENT ON COLUMN index_documents.index_key IS 'The index';
COMMENT ON COLUMN index_documents.document IS '0, 1, … within the index, in the order of the hash of their record ids';
COMMENT ON COLUMN index_documents.section_key IS 'The section';
COMMENT ON COLUMN index_documents.length IS 'Its tokens';

CREATE TABLE index_postings (
    index_key INTEGER NOT NULL,
    term_key INTEGER NOT NULL,
    document INTEGER NOT NULL,
    frequency INTEGER NOT NULL
);
COMMENT ON TABLE index_postings IS 'Which documents have which terms';
COMMENT ON COLUMN index_postings.index_key IS 'The index';
COMMENT ON COLUMN index_postings.term_key IS 'The term';
COMMENT ON COLUMN index_postings.document IS 'The document';
COMMENT ON COLUMN index_postings.frequency IS 'How often the document has the term';

CREATE TABLE text_hashes (
    section_key BIGINT NOT NULL,
    text_hash UBIGINT NOT NULL
);
COMMENT ON TABLE text_hashes IS 'Sections whose texts differ in case, accents, composition or white space only are told by it';
COMMENT ON COLUMN text_hashes.section_key IS 'The section';
COMMENT ON COLUMN text_hashes.text_hash IS 'Lower 64 bits of the MD5 of its normalised text';

CREATE TABLE minings (
    mining_key INTEGER NOT NULL,
    recipe VARCHAR NOT NULL,
    source_id INTEGER NOT NULL,
    split VARCHAR NOT NULL,
    method VARCHAR NOT NULL,
    definition JSON NOT NULL,
    settings JSON NOT NULL,
    content VARCHAR NOT NULL,
    corpus_version BIGINT NOT NULL,
    anchors BIGINT NOT NULL,
    started_at TIMESTAMP NOT NULL,
    finished_at TIMESTAMP,
    superseded_at TIMESTAMP,
    digest VARCHAR,
    report JSON
);
COMMENT ON TABLE minings IS 'Each time negatives were mined, or given, for a recipe over one source and split';
COMMENT ON COLUMN minings.mining_key IS 'Counts from 1, never used again';
COMMENT ON COLUMN minings.recipe IS 'Name of the recipe';
COMMENT ON COLUMN minings.source_id IS 'The source';
COMMENT ON COLUMN minings.split IS 'The split';
COMMENT ON COLUMN minings.method IS 'bm25, or given: scores from elsewhere';
COMMENT ON COLUMN minings.definition IS 'The recipe it was made for: selectors and strategy';
COMMENT ON COLUMN minings.settings IS 'Settings: those of dp.bm25, and how text became terms';
COMMENT ON COLUMN minings.content IS 'Fingerprint of the records it was made from';
COMMENT ON COLUMN minings.corpus_version IS 'Corpus version it was made at';
COMMENT ON COLUMN minings.anchors IS 'Sections of anchors to mine for';
COMMENT ON COLUMN minings.started_at IS 'UTC';
COMMENT ON COLUMN minings.finished_at IS 'UTC; NULL while it is under way or was interrupted';
COMMENT ON COLUMN minings.superseded_at IS 'When a later one took its place, or NULL; UTC';
COMMENT ON COLUMN minings.digest IS 'Fingerprint of its candidates';
COMMENT ON COLUMN minings.report IS 'Counts by filter, quantiles of scores, seconds';

CREATE TABLE mined_anchors (
    mining_key INTEGER NOT NULL,
    anchor_section_key BIGINT NOT NULL,
    candidates INTEGER NOT NULL,
    outcome VARCHAR NOT NULL,
    examined BIGINT NOT NULL,
    positive_score DOUBLE,
    positive_rank BIGINT
);
COMMENT ON TABLE mined_anchors IS 'What became of every anchor of a mining';
COMMENT ON COLUMN mined_anchors.mining_key IS 'The mining';
COMMENT ON COLUMN mined_anchors.anchor_section_key IS 'Section of the anchor';
COMMENT ON COLUMN mined_anchors.candidates IS 'Negatives kept for it';
COMMENT ON COLUMN mined_anchors.outcome IS 'full, or what was done about one left short: backfilled, random, dropped, short, none';
COMMENT ON COLUMN mined_anchors.examined IS 'Documents that share a term with it (for given scores: rows)';
COMMENT ON COLUMN mined_anchors.positive_score IS 'Score of its lowest-scoring positive, or NULL';
COMMENT ON COLUMN mined_anchors.positive_rank IS 'Rank of that positive among the candidates, from 1, or NULL';

CREATE TABLE mined_negatives (
    mining_key INTEGER NOT NULL,
    anchor_section_key BIGINT NOT NULL,
    rank INTEGER NOT NULL,
    negative_section_key BIGINT NOT NULL,
    score DOUBLE
);
COMMENT ON TABLE mined_negatives IS 'The negatives of every mining, superseded ones included';
COMMENT ON COLUMN mined_negatives.mining_key IS 'The mining';
COMMENT ON COLUMN mined_negatives.anchor_section_key IS 'Section of the anchor';
COMMENT ON COLUMN mined_negatives.rank IS 'From 1, the hardest first';
COMMENT ON COLUMN mined_negatives.negative_section_key IS 'Section of the negative';
COMMENT ON COLUMN mined_negatives.score IS 'What it was ranked by; NULL for one that was drawn at random';

CREATE VIEW negatives AS
SELECT
    minings.recipe, mined_negatives.anchor_section_key, mined_negatives.rank,
    mined_negatives.negative_section_key, mined_negatives.score,
    sources.name AS source, minings.split, minings.method
FROM mined_negatives
JOIN minings USING (mining_key)
JOIN sources USING (source_id)
WHERE minings.finished_at IS NOT NULL AND minings.superseded_at IS NULL;
COMMENT ON VIEW negatives IS 'The hard negatives that a new run would use';
COMMENT ON COLUMN negatives.recipe IS 'The recipe they were mined for';
COMMENT ON COLUMN negatives.anchor_section_key IS 'Section of the anchor';
COMMENT ON COLUMN negatives.rank IS 'From 1, the hardest first';
COMMENT ON COLUMN negatives.negative_section_key IS 'Section of the negative';
COMMENT ON COLUMN negatives.score IS 'What it was ranked by; NULL for one that was drawn at random';
COMMENT ON COLUMN negatives.source IS 'Source of both';
COMMENT ON COLUMN negatives.split IS 'Split of both';
COMMENT ON COLUMN negatives.method IS 'bm25, or given: scores from elsewhere';

CREATE VIEW negative_texts AS
SELECT
    negatives.recipe, negatives.source, negatives.split, negatives.rank, negatives.score,
    anchor_records.record_id AS anchor_record_id, anchors.text AS anchor,
    negative_records.record_id AS negative_record_id, texts.text AS negative
FROM negatives
JOIN sections AS anchors ON anchors.section_key = negatives.anchor_section_key
JOIN records AS anchor_records ON anchor_records.record_key = anchors.record_key
JOIN sections AS texts ON texts.section_key = negatives.negative_section_key
JOIN records AS negative_records ON negative_records.record_key = texts.record_key;
COMMENT ON VIEW negative_texts IS 'The same with record ids and texts, to read';
