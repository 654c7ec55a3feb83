-- The corpus file. Keys are dense integers given out in the order of arrival; no secondary
-- indexes and no foreign keys, because DuckDB cannot alter an indexed table and has no CASCADE.
CREATE TABLE settings (
    name VARCHAR NOT NULL,
    value JSON NOT NULL
);
COMMENT ON TABLE settings IS 'What the stored splits and chunks were made with, one row a stage';
COMMENT ON COLUMN settings.name IS 'Stage: splits or chunking';
COMMENT ON COLUMN settings.value IS 'Its settings as a JSON object';

CREATE TABLE corpus_versions (
    version BIGINT NOT NULL,
    committed_at TIMESTAMP NOT NULL,
    what VARCHAR NOT NULL,
    source VARCHAR,
    report JSON
);
COMMENT ON TABLE corpus_versions IS 'One row for every committed ingest or removal; a run pins one of them';
COMMENT ON COLUMN corpus_versions.version IS 'Counts from 1';
COMMENT ON COLUMN corpus_versions.committed_at IS 'UTC';
COMMENT ON COLUMN corpus_versions.what IS 'The verb: ingest or remove';
COMMENT ON COLUMN corpus_versions.source IS 'Name of the source it was about';
COMMENT ON COLUMN corpus_versions.report IS 'The report of an ingest: rows read, added, skipped by reason, failed, seconds';

CREATE TABLE sources (
    source_id INTEGER NOT NULL,
    name VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,
    uri VARCHAR,
    trust DOUBLE NOT NULL,
    defaults VARCHAR NOT NULL,
    added_version BIGINT NOT NULL,
    removed_version BIGINT
);
COMMENT ON TABLE sources IS 'Named origins of records';
COMMENT ON COLUMN sources.source_id IS 'Counts from 1, never used again';
COMMENT ON COLUMN sources.name IS 'The first part of its record ids';
COMMENT ON COLUMN sources.kind IS 'csv, json, parquet, arrow, text, memory or sql';
COMMENT ON COLUMN sources.uri IS 'Where it was last read from';
COMMENT ON COLUMN sources.trust IS 'In [0,1]; scales the weight of its samples';
COMMENT ON COLUMN sources.defaults IS 'Which default recipes suit its rows: roles, text or dated';
COMMENT ON COLUMN sources.added_version IS 'Version that added it';
COMMENT ON COLUMN sources.removed_version IS 'Version that removed it, or NULL';

CREATE TABLE records (
    record_key BIGINT NOT NULL,
    record_id VARCHAR NOT NULL,
    source_id INTEGER NOT NULL,
    added_version BIGINT NOT NULL,
    removed_version BIGINT,
    date DATE,
    group_key VARCHAR,
    taxonomy VARCHAR[],
    meta MAP(VARCHAR, VARCHAR),
    trust DOUBLE NOT NULL,
    content_hash UBIGINT NOT NULL,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP NOT NULL
);
COMMENT ON TABLE records IS 'One row a document; a replaced or removed one stays, marked, for runs pinned before';
COMMENT ON COLUMN records.record_key IS 'Dense integer, in the order of arrival, never used again';
COMMENT ON COLUMN records.record_id IS 'source/key: the id column, else 16 hex digits of the SHA-256 of the content';
COMMENT ON COLUMN records.source_id IS 'The source it came from';
COMMENT ON COLUMN records.added_version IS 'Version that added it';
COMMENT ON COLUMN records.removed_version IS 'Version that removed or replaced it, or NULL';
COMMENT ON COLUMN records.date IS 'Date of the document, if it has one';
COMMENT ON COLUMN records.group_key IS 'Records of one group share a split';
COMMENT ON COLUMN records.taxonomy IS 'Categories, the broadest first';
COMMENT ON COLUMN records.meta IS 'Further columns, as text';
COMMENT ON COLUMN records.trust IS 'In [0,1]: its own, else that of its source';
COMMENT ON COLUMN records.content_hash IS 'First 64 bits of the SHA-256 of the content';
COMMENT ON COLUMN records.created_at IS 'Time given by the source, else of the ingest; UTC';
COMMENT ON COLUMN records.updated_at IS 'Time given by the source, else of the ingest; UTC';

-- Uncompressed: a sampler reads scattered rows, and DuckDB's string compression made that two
-- to four times slower (docs/design.md, "Text is stored uncompressed").
CREATE TABLE sections (
    section_key BIGINT NOT NULL,
    record_key BIGINT NOT NULL,
    position INTEGER NOT NULL,
    role VARCHAR NOT NULL,
    heading VARCHAR,
    text VARCHAR NOT NULL USING COMPRESSION uncompressed,
    token_count INTEGER NOT NULL
);
COMMENT ON TABLE sections IS 'The views of a record''s text';
COMMENT ON COLUMN sections.section_key IS 'Dense integer, in the order of record and position';
COMMENT ON COLUMN sections.record_key IS 'The record it belongs to';
COMMENT ON COLUMN sections.position IS '0, 1, … within the record';
COMMENT ON COLUMN sections.role IS 'anchor or context';
COMMENT ON COLUMN sections.heading IS 'Name of the column it came from';
COMMENT ON COLUMN sections.text IS 'The text as it came, white space included';
COMMENT ON COLUMN sections.token_count IS 'Tokens, as the chunking counts them';

CREATE TABLE chunks (
    chunk_key BIGINT NOT NULL,
    section_key BIGINT NOT NULL,
    record_key BIGINT NOT NULL,
    kind VARCHAR NOT NULL,
    window_index INTEGER NOT NULL,
    overlap INTEGER NOT NULL,
    start INTEGER NOT NULL,
    length INTEGER NOT NULL,
    start_token INTEGER NOT NULL,
    token_count INTEGER NOT NULL,
    text_hash UBIGINT NOT NULL
);
COMMENT ON TABLE chunks IS 'Windows onto sections, as spans: the text is section.text[start + 1 : start + length]';
COMMENT ON COLUMN chunks.chunk_key IS 'Dense integer, in the order of section, overlap and window; summary last';
COMMENT ON COLUMN chunks.section_key IS 'The section it looks at';
COMMENT ON COLUMN chunks.record_key IS 'The record of that section';
COMMENT ON COLUMN chunks.kind IS 'window or summary';
COMMENT ON COLUMN chunks.window_index IS '0, 1, … among the windows of its overlap; 0 for a summary';
COMMENT ON COLUMN chunks.overlap IS 'Tokens shared with the window before; 0 for a section of one window and for a summary';
COMMENT ON COLUMN chunks.start IS 'First character, from 0';
COMMENT ON COLUMN chunks.length IS 'Characters (Unicode code points)';
COMMENT ON COLUMN chunks.start_token IS 'First token, from 0';
COMMENT ON COLUMN chunks.token_count IS 'Tokens';
COMMENT ON COLUMN chunks.text_hash IS 'Lower 64 bits of the MD5 of its text: equal texts are found by it';

CREATE TABLE splits (
    record_key BIGINT NOT NULL,
    split VARCHAR NOT NULL
);
COMMENT ON TABLE splits IS 'The split of every record, once splits are set';
COMMENT ON COLUMN splits.record_key IS 'The record';
COMMENT ON COLUMN splits.split IS 'train, validation or test';

CREATE TABLE recipes (
    name VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,
    definition JSON NOT NULL
);
COMMENT ON TABLE recipes IS 'Recipes stored with the corpus';
COMMENT ON COLUMN recipes.name IS 'Unique';
COMMENT ON COLUMN recipes.kind IS 'triplet or text';
COMMENT ON COLUMN recipes.definition IS 'Its fields, in the form of a recipes file';

CREATE VIEW live_records AS
SELECT records.*, sources.name AS source, splits.split
FROM records
JOIN sources USING (source_id)
LEFT JOIN splits USING (record_key)
WHERE records.removed_version IS NULL;
COMMENT ON VIEW live_records IS 'Records of the newest version, with their source and split';

CREATE VIEW section_texts AS
SELECT
    live_records.record_id, live_records.source, live_records.split,
    sections.position, sections.role, sections.heading, sections.text, sections.token_count
FROM sections
JOIN live_records USING (record_key);
COMMENT ON VIEW section_texts IS 'Every section of the newest version with its record id, source and split';

CREATE VIEW chunk_texts AS
SELECT
    live_records.record_id, live_records.source, live_records.split,
    sections.position, sections.role, chunks.kind, chunks.window_index, chunks.overlap,
    chunks.token_count, substring(sections.text, chunks.start + 1, chunks.length) AS text
FROM chunks
JOIN sections USING (section_key)
JOIN live_records ON live_records.record_key = chunks.record_key;
COMMENT ON VIEW chunk_texts IS 'Every chunk of the newest version with its text';

CREATE VIEW split_counts AS
SELECT source, split, count(*) AS records
FROM live_records
GROUP BY ALL
ORDER BY ALL;
COMMENT ON VIEW split_counts IS 'Records by source and split';

CREATE VIEW source_counts AS
WITH section_counts AS (
    SELECT record_key, count(*) AS sections, sum(token_count) AS tokens
    FROM sections
    GROUP BY record_key
),
chunk_counts AS (
    SELECT record_key, count(*) AS chunks
    FROM chunks
    GROUP BY record_key
)
SELECT
    live_records.source,
    count(*) AS records,
    coalesce(sum(section_counts.sections), 0)::BIGINT AS sections,
    coalesce(sum(chunk_counts.chunks), 0)::BIGINT AS chunks,
    coalesce(sum(section_counts.tokens), 0)::BIGINT AS tokens
FROM live_records
LEFT JOIN section_counts USING (record_key)
LEFT JOIN chunk_counts USING (record_key)
GROUP BY live_records.source
ORDER BY live_records.source;
COMMENT ON VIEW source_counts IS 'Records, sections, chunks and tokens by source';

CREATE TABLE negatives (
    recipe VARCHAR NOT NULL,
    anchor_section_key BIGINT NOT NULL,
    rank INTEGER NOT NULL,
    negative_section_key BIGINT NOT NULL,
    score DOUBLE NOT NULL
);
COMMENT ON TABLE negatives IS 'Mined hard negatives';
COMMENT ON COLUMN negatives.recipe IS 'The recipe they were mined for';
COMMENT ON COLUMN negatives.anchor_section_key IS 'Section of the anchor';
COMMENT ON COLUMN negatives.rank IS 'From 1, the hardest first';
COMMENT ON COLUMN negatives.negative_section_key IS 'Section of the negative';
COMMENT ON COLUMN negatives.score IS 'The score it was ranked by';
