-- The corpus file. `main` has the tables for users, `_internal` the tables for duckplets. Keys are
-- dense integers in the order of arrival. Secondary indexes and foreign keys are left out, because
-- DuckDB cannot alter an indexed table and has no CASCADE.
CREATE SCHEMA IF NOT EXISTS _internal;

-- Table macros, one a recipe: duckplets/pools/macros.py writes them when recipes change.
CREATE SCHEMA pools;
CREATE SCHEMA left_out;

CREATE TABLE _internal.settings (
    name VARCHAR NOT NULL,
    value JSON NOT NULL
);
COMMENT ON TABLE _internal.settings IS 'Settings of splits, chunks and terms, one row a stage';
COMMENT ON COLUMN _internal.settings.name IS 'Stage: splits, chunking, terms, or keys (the last keys at the time of compaction)';
COMMENT ON COLUMN _internal.settings.value IS 'Its settings as a JSON object';

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
COMMENT ON COLUMN corpus_versions.what IS 'The verb: ingest, remove or prefix';
COMMENT ON COLUMN corpus_versions.source IS 'Name of its source';
COMMENT ON COLUMN corpus_versions.report IS 'The report of an ingest: rows read, added, skipped by reason, failed, seconds';

CREATE TABLE sources (
    source_id INTEGER NOT NULL,
    name VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,
    uri VARCHAR,
    trust DOUBLE NOT NULL,
    defaults VARCHAR NOT NULL,
    added_version BIGINT NOT NULL,
    removed_version BIGINT,
    mapping JSON,
    recipes JSON,
    weight DOUBLE,
    documents_id INTEGER
);
COMMENT ON TABLE sources IS 'Named origins of records';
COMMENT ON COLUMN sources.source_id IS 'Counts from 1 and is never reused';
COMMENT ON COLUMN sources.name IS 'The first part of its record ids';
COMMENT ON COLUMN sources.kind IS 'csv, json, parquet, arrow, text, memory, sql, hub, dataset, indexed, custom, or the kind that a custom source names';
COMMENT ON COLUMN sources.uri IS 'Address of the last read';
COMMENT ON COLUMN sources.trust IS 'From 0 to 1; scales the weight of its samples';
COMMENT ON COLUMN sources.defaults IS 'Kind of its default recipes: roles, text or dated';
COMMENT ON COLUMN sources.added_version IS 'Version that added it';
COMMENT ON COLUMN sources.removed_version IS 'Version that removed it, or NULL';
COMMENT ON COLUMN sources.mapping IS 'How its rows are read: columns, converter and kinds of text';
COMMENT ON COLUMN sources.recipes IS 'Definitions of its own recipes, which replace its defaults, or NULL';
COMMENT ON COLUMN sources.weight IS 'Its weight in the declared mixture, from a sources file, or NULL';
COMMENT ON COLUMN sources.documents_id IS 'The source of documents for its labels and negatives; NULL: its own records';

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
    updated_at TIMESTAMP NOT NULL,
    label DOUBLE,
    id_hash UBIGINT NOT NULL
);
COMMENT ON TABLE records IS 'One row a document; replaced and removed records stay, marked, for older pinned runs';
COMMENT ON COLUMN records.record_key IS 'Dense integer, in the order of arrival, never reused';
COMMENT ON COLUMN records.record_id IS 'source/key: the id column, or 16 hex digits of the SHA-256 of the content';
COMMENT ON COLUMN records.source_id IS 'Its source';
COMMENT ON COLUMN records.added_version IS 'Version that added it';
COMMENT ON COLUMN records.removed_version IS 'Version that removed or replaced it, or NULL';
COMMENT ON COLUMN records.date IS 'Date of the document, if it has one';
COMMENT ON COLUMN records.group_key IS 'Records of one group share a split';
COMMENT ON COLUMN records.taxonomy IS 'Categories, the broadest first';
COMMENT ON COLUMN records.meta IS 'More columns, as text';
COMMENT ON COLUMN records.trust IS 'From 0 to 1: its own trust, or the trust of its source';
COMMENT ON COLUMN records.content_hash IS 'First 64 bits of the SHA-256 of the content';
COMMENT ON COLUMN records.created_at IS 'Time from the source, or time of the ingest; UTC';
COMMENT ON COLUMN records.updated_at IS 'Time from the source, or time of the ingest; UTC';
COMMENT ON COLUMN records.label IS 'Label of its anchor and positive: 1, 0 or a grade; NULL without a label';
COMMENT ON COLUMN records.id_hash IS 'Lower 64 bits of the MD5 of its id: orders the records of a version for draws';

-- A text may stay in its Parquet file. The row then has its place, and the view `sections` reads it
-- there; a statement without texts reads this table and opens no file. Texts are uncompressed because
-- a sampler reads scattered rows, which DuckDB's string compression made two to four times slower
-- (docs/design.md, "Text is stored uncompressed").
CREATE TABLE _internal.stored_sections (
    section_key BIGINT NOT NULL,
    record_key BIGINT NOT NULL,
    position INTEGER NOT NULL,
    role VARCHAR NOT NULL,
    heading VARCHAR,
    text VARCHAR USING COMPRESSION uncompressed,
    token_count INTEGER NOT NULL,
    file_key INTEGER,
    file_row BIGINT,
    item INTEGER,
    normalised_hash UBIGINT NOT NULL
);
COMMENT ON TABLE _internal.stored_sections IS 'The sections of records, without texts that stay in Parquet files; the view sections has all texts';
COMMENT ON COLUMN _internal.stored_sections.section_key IS 'Dense integer, in the order of record and position';
COMMENT ON COLUMN _internal.stored_sections.record_key IS 'Its record';
COMMENT ON COLUMN _internal.stored_sections.position IS '0, 1, … within the record';
COMMENT ON COLUMN _internal.stored_sections.role IS 'anchor, context, or rejected: the rejected reply of a preference pair';
COMMENT ON COLUMN _internal.stored_sections.heading IS 'Name of its column';
COMMENT ON COLUMN _internal.stored_sections.text IS 'The text with its white space, after preprocessors; NULL for a text that stays in its file';
COMMENT ON COLUMN _internal.stored_sections.token_count IS 'Tokens by the tokenizer of the chunking';
COMMENT ON COLUMN _internal.stored_sections.file_key IS 'File of its text in placed_files, or NULL';
COMMENT ON COLUMN _internal.stored_sections.file_row IS 'Row of that file, from 0';
COMMENT ON COLUMN _internal.stored_sections.item IS 'Number of the text among texts of that name and role in the row, from 1, without blank ones';
COMMENT ON COLUMN _internal.stored_sections.normalised_hash IS 'Lower 64 bits of the MD5 of its normalised text: equal for texts that differ in case, accents, composition or white space only';

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
COMMENT ON COLUMN chunks.section_key IS 'Its section';
COMMENT ON COLUMN chunks.record_key IS 'Its record';
COMMENT ON COLUMN chunks.kind IS 'window or summary';
COMMENT ON COLUMN chunks.window_index IS '0, 1, … among the windows of its overlap; 0 for a summary';
COMMENT ON COLUMN chunks.overlap IS 'Tokens shared with the window before; 0 for a section of one window and for a summary';
COMMENT ON COLUMN chunks.start IS 'First character, from 0';
COMMENT ON COLUMN chunks.length IS 'Characters (Unicode code points)';
COMMENT ON COLUMN chunks.start_token IS 'First token, from 0';
COMMENT ON COLUMN chunks.token_count IS 'Tokens';
COMMENT ON COLUMN chunks.text_hash IS 'Lower 64 bits of the MD5 of its text, to find equal texts';

CREATE TABLE splits (
    record_key BIGINT NOT NULL,
    split VARCHAR NOT NULL,
    given BOOLEAN NOT NULL DEFAULT FALSE
);
COMMENT ON TABLE splits IS 'The split of every record, once splits are set';
COMMENT ON COLUMN splits.record_key IS 'The record';
COMMENT ON COLUMN splits.split IS 'train, validation or test; every for documents, which are in all three';
COMMENT ON COLUMN splits.given IS 'Whether the split came with a collection, so split() does not change it';

CREATE TABLE recipes (
    name VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,
    definition JSON NOT NULL
);
COMMENT ON TABLE recipes IS 'Stored recipes; without them samplers use the defaults of each source, as in duckplets show --recipes, or for a saved run in the view run_recipes of its state file';
COMMENT ON COLUMN recipes.name IS 'Unique';
COMMENT ON COLUMN recipes.kind IS 'triplet or text';
COMMENT ON COLUMN recipes.definition IS 'Its fields, in the form of a recipes file';

CREATE TABLE _internal.conversations (
    record_key BIGINT NOT NULL,
    messages VARCHAR NOT NULL USING COMPRESSION uncompressed,
    rejected_messages VARCHAR USING COMPRESSION uncompressed,
    has_tools BOOLEAN
);
COMMENT ON TABLE _internal.conversations IS 'The messages of records that were converted from instruction data';
COMMENT ON COLUMN _internal.conversations.record_key IS 'The record';
COMMENT ON COLUMN _internal.conversations.messages IS 'JSON list of {role, content: [{type, text}], loss_weight}, with tool_calls, tool_call_id and name for tools; the chosen messages of a preference pair';
COMMENT ON COLUMN _internal.conversations.rejected_messages IS 'The rejected messages of a preference pair, or NULL';
COMMENT ON COLUMN _internal.conversations.has_tools IS 'Whether a message has tool_calls, a tool_call_id, a name or reasoning';

CREATE TABLE _internal.section_originals (
    record_key BIGINT NOT NULL,
    position INTEGER NOT NULL,
    role VARCHAR NOT NULL,
    heading VARCHAR,
    text VARCHAR NOT NULL
);
COMMENT ON TABLE _internal.section_originals IS 'Original texts that preprocessors changed or dropped';
COMMENT ON COLUMN _internal.section_originals.record_key IS 'The record';
COMMENT ON COLUMN _internal.section_originals.position IS 'Position of the section; without a row in sections the text was dropped';
COMMENT ON COLUMN _internal.section_originals.role IS 'Role of the section';
COMMENT ON COLUMN _internal.section_originals.heading IS 'Heading of the section';
COMMENT ON COLUMN _internal.section_originals.text IS 'The text before preprocessing';

CREATE TABLE _internal.record_prefixes (
    record_key BIGINT NOT NULL,
    definition JSON NOT NULL
);
COMMENT ON TABLE _internal.record_prefixes IS 'Metadata prefixes of single records';
COMMENT ON COLUMN _internal.record_prefixes.record_key IS 'The record';
COMMENT ON COLUMN _internal.record_prefixes.definition IS 'Probability, and variants: lists of fields with a key, renderings and presence';

CREATE TABLE _internal.source_prefixes (
    source_id INTEGER NOT NULL,
    version BIGINT NOT NULL,
    definition JSON
);
COMMENT ON TABLE _internal.source_prefixes IS 'Metadata prefixes for the records of a source without their own; the last version counts';
COMMENT ON COLUMN _internal.source_prefixes.source_id IS 'The source';
COMMENT ON COLUMN _internal.source_prefixes.version IS 'First corpus version with it';
COMMENT ON COLUMN _internal.source_prefixes.definition IS 'As in record_prefixes, with columns of a record instead of values; NULL for none';

CREATE TABLE _internal.placed_files (
    file_key INTEGER NOT NULL,
    source_id INTEGER NOT NULL,
    path VARCHAR NOT NULL,
    size BIGINT NOT NULL,
    modified BIGINT NOT NULL,
    footer VARCHAR NOT NULL,
    columns JSON NOT NULL
);
COMMENT ON TABLE _internal.placed_files IS 'Parquet files with texts: files of sources, or files of the corpus itself';
COMMENT ON COLUMN _internal.placed_files.file_key IS 'Counts from 1 and is never reused';
COMMENT ON COLUMN _internal.placed_files.source_id IS 'Its source; 0: the corpus itself';
COMMENT ON COLUMN _internal.placed_files.path IS 'Its path, absolute or from the folder of the corpus; *.texts is the folder of texts';
COMMENT ON COLUMN _internal.placed_files.size IS 'Its size in bytes';
COMMENT ON COLUMN _internal.placed_files.modified IS 'Time of the last write in ns since 1970; 0: any time';
COMMENT ON COLUMN _internal.placed_files.footer IS 'SHA-256 of its footer, which has the places of its data';
COMMENT ON COLUMN _internal.placed_files.columns IS 'Column of every heading, and whether it has lists: [[heading, column, is_list], …]; null: all headings';

CREATE TABLE _internal.unfinished_ingests (
    name VARCHAR NOT NULL,
    source_id INTEGER NOT NULL,
    settings JSON NOT NULL,
    cursor JSON NOT NULL,
    counts JSON NOT NULL,
    started_at TIMESTAMP NOT NULL,
    saved_at TIMESTAMP NOT NULL
);
COMMENT ON TABLE _internal.unfinished_ingests IS 'Unfinished ingests that can continue; until the end their records have version 9223372036854775807';
COMMENT ON COLUMN _internal.unfinished_ingests.name IS 'Name of the source';
COMMENT ON COLUMN _internal.unfinished_ingests.source_id IS 'Source of its records';
COMMENT ON COLUMN _internal.unfinished_ingests.settings IS 'The request; only an equal request continues from the cursor';
COMMENT ON COLUMN _internal.unfinished_ingests.cursor IS 'Position from which the source continues';
COMMENT ON COLUMN _internal.unfinished_ingests.counts IS 'Rows read, added and skipped by reason, up to the cursor';
COMMENT ON COLUMN _internal.unfinished_ingests.started_at IS 'UTC';
COMMENT ON COLUMN _internal.unfinished_ingests.saved_at IS 'Time of the cursor; UTC';

CREATE TABLE quarantine (
    source VARCHAR NOT NULL,
    version BIGINT NOT NULL,
    "row" BIGINT NOT NULL,
    reason VARCHAR NOT NULL,
    document VARCHAR,
    file VARCHAR,
    line BIGINT
);
COMMENT ON TABLE quarantine IS 'Unusable rows, stored by on_error="quarantine"';
COMMENT ON COLUMN quarantine.source IS 'Name of the source';
COMMENT ON COLUMN quarantine.version IS 'Version of the ingest that met it';
COMMENT ON COLUMN quarantine."row" IS 'Its number in the source, from 1';
COMMENT ON COLUMN quarantine.reason IS 'The fault, and its field';
COMMENT ON COLUMN quarantine.document IS 'The original row as JSON, or the text of a line that is not a row';
COMMENT ON COLUMN quarantine.file IS 'Its file, or NULL';
COMMENT ON COLUMN quarantine.line IS 'Its first line in the file, from 1, or NULL';

-- An index is rebuilt when its content has changed. A replaced mining stays for the runs that are
-- pinned to it.
CREATE TABLE _internal.text_indexes (
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
COMMENT ON TABLE _internal.text_indexes IS 'Full-text indexes: one for every source and split, over all sections';
COMMENT ON COLUMN _internal.text_indexes.index_key IS 'Counts from 1 and is never reused';
COMMENT ON COLUMN _internal.text_indexes.source_id IS 'The source';
COMMENT ON COLUMN _internal.text_indexes.split IS 'The split';
COMMENT ON COLUMN _internal.text_indexes.terms IS 'Text analysis: stemmer, stop words and separators of tokens';
COMMENT ON COLUMN _internal.text_indexes.content IS 'Fingerprint of its records';
COMMENT ON COLUMN _internal.text_indexes.corpus_version IS 'Corpus version of its build';
COMMENT ON COLUMN _internal.text_indexes.documents IS 'Indexed sections';
COMMENT ON COLUMN _internal.text_indexes.tokens IS 'Tokens of all these sections';
COMMENT ON COLUMN _internal.text_indexes.built_at IS 'UTC';

CREATE TABLE _internal.index_terms (
    index_key INTEGER NOT NULL,
    term_key INTEGER NOT NULL,
    term VARCHAR NOT NULL,
    document_count INTEGER NOT NULL
);
COMMENT ON TABLE _internal.index_terms IS 'The vocabulary of each index';
COMMENT ON COLUMN _internal.index_terms.index_key IS 'The index';
COMMENT ON COLUMN _internal.index_terms.term_key IS '0, 1, … within the index';
COMMENT ON COLUMN _internal.index_terms.term IS 'The term: a token in lower case, without accents, stemmed';
COMMENT ON COLUMN _internal.index_terms.document_count IS 'Documents that have it';

CREATE TABLE _internal.index_words (
    index_key INTEGER NOT NULL,
    word VARCHAR NOT NULL,
    term_key INTEGER
);
COMMENT ON TABLE _internal.index_words IS 'The words of each index with their terms, so search() needs no stemmer';
COMMENT ON COLUMN _internal.index_words.index_key IS 'The index';
COMMENT ON COLUMN _internal.index_words.word IS 'The word: lower case, without accents';
COMMENT ON COLUMN _internal.index_words.term_key IS 'Its term; NULL for a stop word';

CREATE TABLE _internal.index_documents (
    index_key INTEGER NOT NULL,
    document INTEGER NOT NULL,
    section_key BIGINT NOT NULL,
    length INTEGER NOT NULL
);
COMMENT ON TABLE _internal.index_documents IS 'The documents of each index: sections';
COMMENT ON COLUMN _internal.index_documents.index_key IS 'The index';
COMMENT ON COLUMN _internal.index_documents.document IS '0, 1, … within the index, in the order of the hash of their record ids';
COMMENT ON COLUMN _internal.index_documents.section_key IS 'The section';
COMMENT ON COLUMN _internal.index_documents.length IS 'Its tokens';

CREATE TABLE _internal.index_postings (
    index_key INTEGER NOT NULL,
    term_key INTEGER NOT NULL,
    document INTEGER NOT NULL,
    frequency INTEGER NOT NULL
);
COMMENT ON TABLE _internal.index_postings IS 'The documents of each term';
COMMENT ON COLUMN _internal.index_postings.index_key IS 'The index';
COMMENT ON COLUMN _internal.index_postings.term_key IS 'The term';
COMMENT ON COLUMN _internal.index_postings.document IS 'The document';
COMMENT ON COLUMN _internal.index_postings.frequency IS 'Frequency of the term in the document';

CREATE TABLE acquisitions (
    acquisition_id INTEGER NOT NULL,
    source_id INTEGER NOT NULL,
    source VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,
    uri VARCHAR,
    quality JSON,
    fingerprint VARCHAR,
    condition VARCHAR,
    size_mb DOUBLE,
    row_limit BIGINT,
    started_at TIMESTAMP NOT NULL,
    ended_at TIMESTAMP,
    "read" BIGINT NOT NULL,
    accepted BIGINT NOT NULL,
    filtered BIGINT NOT NULL,
    rejected BIGINT NOT NULL,
    unreadable BIGINT NOT NULL,
    accepted_bytes BIGINT NOT NULL,
    first_record_key BIGINT NOT NULL,
    last_row BIGINT NOT NULL,
    rows_digest UBIGINT NOT NULL,
    cursor JSON NOT NULL,
    version BIGINT NOT NULL,
    duckplets VARCHAR NOT NULL
);
COMMENT ON TABLE acquisitions IS 'Intakes through gates, one a row, with the counts at intake';
COMMENT ON COLUMN acquisitions.acquisition_id IS 'Its number';
COMMENT ON COLUMN acquisitions.source_id IS 'Its source';
COMMENT ON COLUMN acquisitions.source IS 'Name of the source';
COMMENT ON COLUMN acquisitions.kind IS 'Kind of its source';
COMMENT ON COLUMN acquisitions.uri IS 'Address of its source, or NULL';
COMMENT ON COLUMN acquisitions.quality IS 'All settings of the gates; NULL with only where, size_mb and limit';
COMMENT ON COLUMN acquisitions.fingerprint IS 'SHA-256 of the settings that decide outcomes, or NULL';
COMMENT ON COLUMN acquisitions.condition IS 'where=: the condition that rows must meet';
COMMENT ON COLUMN acquisitions.size_mb IS 'Cap of accepted text of the source, in 10^6 bytes, or NULL';
COMMENT ON COLUMN acquisitions.row_limit IS 'limit=: cap of accepted records of the source, or NULL';
COMMENT ON COLUMN acquisitions.started_at IS 'UTC';
COMMENT ON COLUMN acquisitions.ended_at IS 'UTC; NULL while it is unfinished';
COMMENT ON COLUMN acquisitions."read" IS 'Rows read: accepted + filtered + rejected + unreadable';
COMMENT ON COLUMN acquisitions.accepted IS 'Rows that became records';
COMMENT ON COLUMN acquisitions.filtered IS 'Rows that where= or the source excluded';
COMMENT ON COLUMN acquisitions.rejected IS 'Rows that a gate rejected';
COMMENT ON COLUMN acquisitions.unreadable IS 'Rows that cannot be records';
COMMENT ON COLUMN acquisitions.accepted_bytes IS 'UTF-8 bytes of the accepted texts';
COMMENT ON COLUMN acquisitions.first_record_key IS 'Key of the next record at the beginning; records with smaller keys came first';
COMMENT ON COLUMN acquisitions.last_row IS 'Last row that was read';
COMMENT ON COLUMN acquisitions.rows_digest IS 'Digest of the contents of all rows up to that one';
COMMENT ON COLUMN acquisitions.cursor IS 'Position from which the source continues; null for its beginning';
COMMENT ON COLUMN acquisitions.version IS 'Its corpus version; 9223372036854775807 while it is unfinished';
COMMENT ON COLUMN acquisitions.duckplets IS 'Version of the package';

CREATE TABLE judgements (
    judgement_key BIGINT NOT NULL,
    acquisition_id INTEGER,
    source_id INTEGER NOT NULL,
    source VARCHAR NOT NULL,
    file VARCHAR,
    "row" BIGINT NOT NULL,
    line BIGINT,
    record_id VARCHAR,
    record_key BIGINT,
    outcome VARCHAR NOT NULL,
    gate VARCHAR,
    rule VARCHAR,
    digest BLOB,
    bytes BIGINT,
    measured VARCHAR,
    metrics STRUCT(
        characters BIGINT,
        words BIGINT,
        lines BIGINT,
        present VARCHAR[],
        license VARCHAR,
        emails BIGINT,
        phones BIGINT,
        ssns BIGINT,
        addresses BIGINT,
        ipv6_addresses BIGINT,
        ibans BIGINT,
        cards BIGINT,
        profanity BIGINT,
        copyright BIGINT,
        domain_terms BIGINT,
        domain_categories BIGINT,
        code_lines BIGINT,
        code_indented BIGINT,
        code_symbols BIGINT,
        code_characters BIGINT,
        code_keywords BIGINT,
        code_words BIGINT,
        code_early BOOLEAN,
        tokens BIGINT,
        plain_tokens BIGINT,
        plain_characters BIGINT,
        alphabetic_tokens BIGINT,
        stop_words BIGINT,
        hashes BIGINT,
        ellipses BIGINT,
        bullet_lines BIGINT,
        ellipsis_lines BIGINT,
        paragraphs BIGINT,
        duplicate_paragraphs BIGINT,
        duplicate_paragraph_characters BIGINT,
        pieces BIGINT,
        duplicate_lines BIGINT,
        duplicate_line_characters BIGINT,
        top_2gram BIGINT,
        top_3gram BIGINT,
        top_4gram BIGINT,
        duplicate_5grams BIGINT,
        duplicate_6grams BIGINT,
        duplicate_7grams BIGINT,
        duplicate_8grams BIGINT,
        duplicate_9grams BIGINT,
        duplicate_10grams BIGINT,
        sentences BIGINT,
        lorem_ipsum BIGINT,
        curly_brackets BIGINT,
        filled_lines BIGINT,
        punctuated_lines BIGINT,
        short_lines BIGINT,
        duplicate_filled_characters BIGINT,
        newlines BIGINT,
        language VARCHAR,
        language_probability DOUBLE,
        own MAP(VARCHAR, DOUBLE)
    )
);
COMMENT ON TABLE judgements IS 'Outcome of every row read through gates; unique by source, file and row';
COMMENT ON COLUMN judgements.judgement_key IS 'Its number, in the order of first outcomes';
COMMENT ON COLUMN judgements.acquisition_id IS 'The intake; NULL for a record without an intake that quality() has measured';
COMMENT ON COLUMN judgements.source_id IS 'The source';
COMMENT ON COLUMN judgements.source IS 'Name of the source';
COMMENT ON COLUMN judgements.file IS 'Its file, or NULL';
COMMENT ON COLUMN judgements."row" IS 'Its number in the source, from 1; minus the record key for a record without an intake';
COMMENT ON COLUMN judgements.line IS 'Its first line in the file, from 1, or NULL';
COMMENT ON COLUMN judgements.record_id IS 'Its record id; NULL if unreadable';
COMMENT ON COLUMN judgements.record_key IS 'Its record, also after a rejection';
COMMENT ON COLUMN judgements.outcome IS 'accepted, filtered, rejected or unreadable';
COMMENT ON COLUMN judgements.gate IS 'The first failed gate: where, duplicates, schema, content, language_domain, or source for a row that its source excluded';
COMMENT ON COLUMN judgements.rule IS 'The rule of the gate, or the reason why it was unreadable';
COMMENT ON COLUMN judgements.digest IS 'SHA-256 of the stored text: all sections except rejected ones, joined by a blank line';
COMMENT ON COLUMN judgements.bytes IS 'Size of that text in UTF-8';
COMMENT ON COLUMN judgements.measured IS 'Its settings in measurings; NULL if not measured';
COMMENT ON COLUMN judgements.metrics IS 'Metrics of the text before redaction; NULL if not measured';

CREATE TABLE _internal.measurings (
    measured VARCHAR NOT NULL,
    keys JSON NOT NULL
);
COMMENT ON TABLE _internal.measurings IS 'Settings of metrics';
COMMENT ON COLUMN _internal.measurings.measured IS 'Digest of the keys';
COMMENT ON COLUMN _internal.measurings.keys IS 'The settings of each metric, as a key';

CREATE TABLE _internal.rejected_rows (
    acquisition_id INTEGER,
    source_id INTEGER NOT NULL,
    "row" BIGINT NOT NULL,
    record_id VARCHAR NOT NULL,
    content_hash UBIGINT NOT NULL,
    sections STRUCT(role VARCHAR, heading VARCHAR, text VARCHAR, original VARCHAR)[] NOT NULL,
    date DATE,
    group_key VARCHAR,
    taxonomy VARCHAR[],
    meta MAP(VARCHAR, VARCHAR),
    trust DOUBLE,
    created_at TIMESTAMP,
    updated_at TIMESTAMP,
    messages VARCHAR,
    rejected_messages VARCHAR,
    prefix VARCHAR,
    label DOUBLE
);
COMMENT ON TABLE _internal.rejected_rows IS 'Rows that gates rejected, with all columns of records, for quality(apply=…)';
COMMENT ON COLUMN _internal.rejected_rows.acquisition_id IS 'The intake, as in judgements';
COMMENT ON COLUMN _internal.rejected_rows.source_id IS 'The source';
COMMENT ON COLUMN _internal.rejected_rows."row" IS 'Its number, as in judgements';
COMMENT ON COLUMN _internal.rejected_rows.record_id IS 'Its record id, if accepted';
COMMENT ON COLUMN _internal.rejected_rows.content_hash IS 'First 64 bits of the SHA-256 of its original content';
COMMENT ON COLUMN _internal.rejected_rows.sections IS 'Its texts in order; a section dropped by preprocessors has an original and no text';
COMMENT ON COLUMN _internal.rejected_rows.date IS 'As in records, like the columns after it';
COMMENT ON COLUMN _internal.rejected_rows.group_key IS 'As in records';
COMMENT ON COLUMN _internal.rejected_rows.taxonomy IS 'As in records';
COMMENT ON COLUMN _internal.rejected_rows.meta IS 'As in records';
COMMENT ON COLUMN _internal.rejected_rows.trust IS 'Trust of the row itself, or NULL';
COMMENT ON COLUMN _internal.rejected_rows.created_at IS 'Original value, or NULL';
COMMENT ON COLUMN _internal.rejected_rows.updated_at IS 'Original value, or NULL';
COMMENT ON COLUMN _internal.rejected_rows.messages IS 'As in conversations, or NULL';
COMMENT ON COLUMN _internal.rejected_rows.rejected_messages IS 'As in conversations, or NULL';
COMMENT ON COLUMN _internal.rejected_rows.prefix IS 'As the definition in record_prefixes, or NULL';
COMMENT ON COLUMN _internal.rejected_rows.label IS 'As in records';

CREATE TABLE _internal.record_hashes (
    record_key BIGINT NOT NULL,
    digest BLOB NOT NULL,
    start UBIGINT NOT NULL
);
COMMENT ON TABLE _internal.record_hashes IS 'Hashes of the texts of records, from the first gate on';
COMMENT ON COLUMN _internal.record_hashes.record_key IS 'The record';
COMMENT ON COLUMN _internal.record_hashes.digest IS 'SHA-256 of its sections except rejected ones, joined by a blank line';
COMMENT ON COLUMN _internal.record_hashes.start IS 'First 8 bytes of that, with which gates find new texts';

CREATE TABLE clusters (
    version BIGINT NOT NULL,
    cluster BIGINT NOT NULL,
    record_key BIGINT NOT NULL,
    survivor BOOLEAN NOT NULL,
    similarity DOUBLE NOT NULL,
    action VARCHAR NOT NULL,
    settings JSON NOT NULL
);
COMMENT ON TABLE clusters IS 'Records with equal or similar texts, by deduplicate';
COMMENT ON COLUMN clusters.version IS 'Corpus version that was read, or that removed them';
COMMENT ON COLUMN clusters.cluster IS 'Counts from 1 in each version';
COMMENT ON COLUMN clusters.record_key IS 'A record of the cluster';
COMMENT ON COLUMN clusters.survivor IS 'Whether it is the survivor: the first by source_id and record_key';
COMMENT ON COLUMN clusters.similarity IS 'Jaccard similarity of its n-grams with the survivor''s; it may be below near if a third record links both';
COMMENT ON COLUMN clusters.action IS 'Action: mark, or remove (except the survivor)';
COMMENT ON COLUMN clusters.settings IS 'Settings: near (NULL for equal texts only), ngram, bands, rows, seed, algorithm';

CREATE TABLE contaminations (
    version BIGINT NOT NULL,
    against VARCHAR NOT NULL,
    record_key BIGINT NOT NULL,
    matches BIGINT NOT NULL,
    ngram VARCHAR NOT NULL,
    evaluation VARCHAR NOT NULL,
    action VARCHAR NOT NULL,
    settings JSON NOT NULL
);
COMMENT ON TABLE contaminations IS 'Records that share n-grams of words with an evaluation set, by decontaminate';
COMMENT ON COLUMN contaminations.version IS 'Corpus version that was read, or that removed them';
COMMENT ON COLUMN contaminations.against IS 'The evaluation set: a split, a source or a path';
COMMENT ON COLUMN contaminations.record_key IS 'The record';
COMMENT ON COLUMN contaminations.matches IS 'Number of its n-grams in the evaluation set';
COMMENT ON COLUMN contaminations.ngram IS 'The first of them, as words';
COMMENT ON COLUMN contaminations.evaluation IS 'First place of that n-gram in the evaluation set: a record id, or file and row';
COMMENT ON COLUMN contaminations.action IS 'Action: mark or remove';
COMMENT ON COLUMN contaminations.settings IS 'Settings: ngram, and how the set was read';

CREATE TABLE _internal.index_controls (
    source_id INTEGER NOT NULL,
    size BIGINT,
    size_mode VARCHAR NOT NULL,
    weight DOUBLE NOT NULL,
    seed BIGINT NOT NULL
);
COMMENT ON TABLE _internal.index_controls IS 'Number of records of a source in an index, and their copies';
COMMENT ON COLUMN _internal.index_controls.source_id IS 'The source';
COMMENT ON COLUMN _internal.index_controls.size IS 'Number of records, or NULL for all';
COMMENT ON COLUMN _internal.index_controls.size_mode IS 'first or sample';
COMMENT ON COLUMN _internal.index_controls.weight IS 'Copies of each record, 1 for one; applied after size';
COMMENT ON COLUMN _internal.index_controls.seed IS 'Seed of the sample';

CREATE SEQUENCE _internal.text_index_keys;
COMMENT ON SEQUENCE _internal.text_index_keys IS 'Numbers of full-text indexes';

-- Functions that statements, printed pools and users call by name. The duckdb CLI has no search path,
-- so they name internal functions in full.
CREATE MACRO _internal.is_live(added_version, removed_version, version) AS
    added_version <= version AND coalesce(removed_version > version, TRUE);
COMMENT ON MACRO _internal.is_live IS
    'Whether a row exists at a version, by the versions that added and removed it (NULL: none)';

CREATE MACRO _internal.single_spaced(text) AS regexp_replace(text, '[\t\n\f\r]\s*| \s+', ' ', 'g');
COMMENT ON MACRO _internal.single_spaced IS 'A text with one space for every run of white space';

CREATE MACRO _internal.trimmed(text) AS CASE
    WHEN strlen(text) = length(text) AND NOT starts_with(text, ' ') AND NOT ends_with(text, ' ')
        THEN text
    ELSE trim(text)
END;
COMMENT ON MACRO _internal.trimmed IS 'A text without white space at its ends';

CREATE MACRO normalised_hash(text) AS md5_number_lower(
    lower(_internal.unaccented(_internal.trimmed(_internal.single_spaced(text))))
);
COMMENT ON MACRO normalised_hash IS
    'Lower 64 bits of the MD5 of a text without regard to case, accents, composition and white space';

CREATE MACRO only_one(x) AS CASE WHEN min(x) = max(x) THEN min(x) END;
COMMENT ON MACRO only_one IS 'The only value of a column in a group; NULL if there are several';

CREATE MACRO _internal.in_split(split, asked) AS split = asked OR split = 'every';
COMMENT ON MACRO _internal.in_split IS 'Whether records of a split belong to a requested split';

CREATE MACRO _internal.served_in(split) AS
    CASE WHEN split = 'every' THEN 'train' ELSE split END;
COMMENT ON MACRO _internal.served_in IS 'The split that serves records: train for documents, which are in every split';

CREATE MACRO _internal.version_at(at_version) AS
    coalesce(at_version, (SELECT max(version) FROM corpus_versions));
COMMENT ON MACRO _internal.version_at IS 'A version; the newest for NULL';

-- A view does not know the path of its file. DuckDB's folder for temporary files is FILE.tmp.
CREATE MACRO _internal.beside_corpus(place) AS coalesce(
    getvariable('corpus_folder'),
    CASE WHEN regexp_matches(current_setting('temp_directory'), '[^/\\]\.tmp$')
        THEN regexp_replace(current_setting('temp_directory'), '[^/\\]*$', '')
    END,
    error('The corpus has files beside it. Name its folder first: SET VARIABLE corpus_folder = ''/path/of/its/folder/''')
) || place;
COMMENT ON MACRO _internal.beside_corpus IS 'The path of a file, from the folder of the corpus';

CREATE MACRO _internal.in_texts(place) AS coalesce(
    getvariable('corpus_texts'),
    CASE WHEN regexp_matches(current_setting('temp_directory'), '[^/\\]\.tmp$')
        THEN regexp_replace(current_setting('temp_directory'), '(\.duckdb)?\.tmp$', '') || '.texts/'
    END,
    error('The corpus has texts in a folder beside it. Name that first: SET VARIABLE corpus_texts = ''/path/of/NAME.texts/''')
) || place;
COMMENT ON MACRO _internal.in_texts IS 'The path of a file of texts of the corpus';

CREATE MACRO _internal.last_key(of_what) AS
    coalesce((SELECT max((value ->> of_what)::BIGINT) FROM _internal.settings WHERE name = 'keys'), 0);
COMMENT ON MACRO _internal.last_key IS
    'The last key at the last compaction, so keys of removed rows are not reused';

-- Views. duckplets/ingest/sections_view.py replaces `sections` when texts are left in files or removed
-- from them. Code that replaces a view sets its comments again.
CREATE VIEW sections AS
SELECT section_key, record_key, position, role, heading, text, token_count, normalised_hash
FROM _internal.stored_sections;
COMMENT ON VIEW sections IS 'The sections of records with their texts';
COMMENT ON COLUMN sections.section_key IS 'Dense integer, in the order of record and position';
COMMENT ON COLUMN sections.record_key IS 'Its record';
COMMENT ON COLUMN sections.position IS '0, 1, … within the record';
COMMENT ON COLUMN sections.role IS 'anchor, context, or rejected: the rejected reply of a preference pair';
COMMENT ON COLUMN sections.heading IS 'Name of its column';
COMMENT ON COLUMN sections.text IS 'The text with its white space, after preprocessors';
COMMENT ON COLUMN sections.token_count IS 'Tokens by the tokenizer of the chunking';
COMMENT ON COLUMN sections.normalised_hash IS 'Equal for texts that differ in case, accents, composition or white space only';

CREATE VIEW live_records AS
SELECT records.*, sources.name AS source, splits.split
FROM records
JOIN sources USING (source_id)
LEFT JOIN splits USING (record_key)
WHERE records.removed_version IS NULL;
COMMENT ON VIEW live_records IS 'Records of the newest version, with their source and split';
COMMENT ON COLUMN live_records.record_key IS 'As in records, like the columns after it';
COMMENT ON COLUMN live_records.record_id IS 'source/key: the id column, or 16 hex digits of the SHA-256 of the content';
COMMENT ON COLUMN live_records.source_id IS 'Its source';
COMMENT ON COLUMN live_records.added_version IS 'Version that added it';
COMMENT ON COLUMN live_records.removed_version IS 'Always NULL';
COMMENT ON COLUMN live_records.date IS 'Date of the document, if it has one';
COMMENT ON COLUMN live_records.group_key IS 'Records of one group share a split';
COMMENT ON COLUMN live_records.taxonomy IS 'Categories, the broadest first';
COMMENT ON COLUMN live_records.meta IS 'More columns, as text';
COMMENT ON COLUMN live_records.trust IS 'From 0 to 1: its own trust, or the trust of its source';
COMMENT ON COLUMN live_records.content_hash IS 'First 64 bits of the SHA-256 of the content';
COMMENT ON COLUMN live_records.created_at IS 'Time from the source, or time of the ingest; UTC';
COMMENT ON COLUMN live_records.updated_at IS 'Time from the source, or time of the ingest; UTC';
COMMENT ON COLUMN live_records.label IS 'Label of its anchor and positive: 1, 0 or a grade; NULL without a label';
COMMENT ON COLUMN live_records.id_hash IS 'Lower 64 bits of the MD5 of its id: orders the records of a version for draws';
COMMENT ON COLUMN live_records.source IS 'Name of its source';
COMMENT ON COLUMN live_records.split IS 'Its split; NULL before splits are set';

CREATE VIEW section_texts AS
SELECT
    live_records.record_id, live_records.source, live_records.split,
    sections.position, sections.role, sections.heading, sections.text, sections.token_count
FROM sections
JOIN live_records USING (record_key);
COMMENT ON VIEW section_texts IS 'Every section of the newest version with its record id, source and split';
COMMENT ON COLUMN section_texts.record_id IS 'Id of the record';
COMMENT ON COLUMN section_texts.source IS 'Name of its source';
COMMENT ON COLUMN section_texts.split IS 'Its split; NULL before splits are set';
COMMENT ON COLUMN section_texts.position IS '0, 1, … within the record';
COMMENT ON COLUMN section_texts.role IS 'anchor, context, or rejected: the rejected reply of a preference pair';
COMMENT ON COLUMN section_texts.heading IS 'Name of its column';
COMMENT ON COLUMN section_texts.text IS 'The text with its white space, after preprocessors';
COMMENT ON COLUMN section_texts.token_count IS 'Tokens by the tokenizer of the chunking';

CREATE VIEW pairs AS
SELECT
    live_records.record_id, live_records.source, live_records.split,
    anchors.text AS anchor, positives.text AS positive, live_records.label
FROM live_records
JOIN sections AS anchors ON anchors.record_key = live_records.record_key AND anchors.role = 'anchor'
JOIN sections AS positives
    ON positives.record_key = live_records.record_key AND positives.role = 'context';
COMMENT ON VIEW pairs IS 'Every anchor and positive of one record, in the newest version, as whole sections';
COMMENT ON COLUMN pairs.record_id IS 'Id of the record';
COMMENT ON COLUMN pairs.source IS 'Name of its source';
COMMENT ON COLUMN pairs.split IS 'Its split; NULL before splits are set';
COMMENT ON COLUMN pairs.anchor IS 'Text of a section with the role anchor';
COMMENT ON COLUMN pairs.positive IS 'Text of a section with the role context';
COMMENT ON COLUMN pairs.label IS 'Label of the pair: 1, 0 or a grade; NULL without a label';

CREATE VIEW chunk_texts AS
SELECT
    live_records.record_id, live_records.source, live_records.split,
    sections.position, sections.role, chunks.kind, chunks.window_index, chunks.overlap,
    chunks.token_count, substring(sections.text, chunks.start + 1, chunks.length) AS text
FROM chunks
JOIN sections USING (section_key)
JOIN live_records ON live_records.record_key = chunks.record_key;
COMMENT ON VIEW chunk_texts IS 'Every chunk of the newest version with its text';
COMMENT ON COLUMN chunk_texts.record_id IS 'Id of the record';
COMMENT ON COLUMN chunk_texts.source IS 'Name of its source';
COMMENT ON COLUMN chunk_texts.split IS 'Its split; NULL before splits are set';
COMMENT ON COLUMN chunk_texts.position IS 'Position of the section within the record, from 0';
COMMENT ON COLUMN chunk_texts.role IS 'Role of the section: anchor, context or rejected';
COMMENT ON COLUMN chunk_texts.kind IS 'window or summary';
COMMENT ON COLUMN chunk_texts.window_index IS '0, 1, … among the windows of its overlap; 0 for a summary';
COMMENT ON COLUMN chunk_texts.overlap IS 'Tokens shared with the window before; 0 for a section of one window and for a summary';
COMMENT ON COLUMN chunk_texts.token_count IS 'Tokens of the chunk by the tokenizer of the chunking';
COMMENT ON COLUMN chunk_texts.text IS 'Text of the chunk';

CREATE VIEW split_counts AS
SELECT source, split, count(*) AS records
FROM live_records
GROUP BY ALL
ORDER BY ALL;
COMMENT ON VIEW split_counts IS 'Records by source and split';
COMMENT ON COLUMN split_counts.source IS 'Name of the source';
COMMENT ON COLUMN split_counts.split IS 'The split; NULL for records without one';
COMMENT ON COLUMN split_counts.records IS 'Records of the newest version';

CREATE VIEW source_counts AS
WITH counted AS (
    SELECT record_key, 1 AS records, 0 AS sections, 0 AS chunks, 0 AS tokens
    FROM records
    UNION ALL
    SELECT record_key, 0 AS records, 1 AS sections, 0 AS chunks, token_count AS tokens
    FROM _internal.stored_sections
    UNION ALL
    SELECT record_key, 0 AS records, 0 AS sections, 1 AS chunks, 0 AS tokens
    FROM chunks
)
SELECT
    sources.name AS source,
    sum(counted.records)::BIGINT AS records,
    sum(counted.sections)::BIGINT AS sections,
    sum(counted.chunks)::BIGINT AS chunks,
    sum(counted.tokens)::BIGINT AS tokens
FROM counted
JOIN records ON records.record_key = counted.record_key
JOIN sources ON sources.source_id = records.source_id
WHERE records.removed_version IS NULL
GROUP BY sources.name
ORDER BY sources.name;
COMMENT ON VIEW source_counts IS 'Records, sections, chunks and tokens by source';
COMMENT ON COLUMN source_counts.source IS 'Name of the source';
COMMENT ON COLUMN source_counts.records IS 'Records of the newest version';
COMMENT ON COLUMN source_counts.sections IS 'Their sections';
COMMENT ON COLUMN source_counts.chunks IS 'Their chunks';
COMMENT ON COLUMN source_counts.tokens IS 'Tokens of their sections by the tokenizer of the chunking';

CREATE VIEW _internal.leading_sections AS
SELECT section_key, record_key, normalised_hash
FROM _internal.stored_sections
WHERE role = 'anchor'
UNION ALL
SELECT
    arg_min(section_key, position) AS section_key, record_key,
    arg_min(normalised_hash, position) AS normalised_hash
FROM _internal.stored_sections
GROUP BY record_key
HAVING NOT bool_or(role = 'anchor');
COMMENT ON VIEW _internal.leading_sections IS 'Sections that define equal texts: the anchors of a record, or its first section without anchors';
COMMENT ON COLUMN _internal.leading_sections.section_key IS 'The section';
COMMENT ON COLUMN _internal.leading_sections.record_key IS 'Its record';
COMMENT ON COLUMN _internal.leading_sections.normalised_hash IS 'As in stored_sections';

-- The documents that answer each anchor. A side is the id of a record (id_hash of records) or a text
-- (text_side of the hash in chunks). So an id is never read as a text.
CREATE TABLE labels (
    anchor UBIGINT NOT NULL,
    document UBIGINT NOT NULL,
    label DOUBLE,
    annotator VARCHAR,
    added_version BIGINT NOT NULL
);
COMMENT ON TABLE labels IS 'How well a document answers an anchor; the newest label of a pair counts, and the greatest of a version';
COMMENT ON COLUMN labels.anchor IS 'Hash of the id of the anchor''s record, or of the anchor''s text';
COMMENT ON COLUMN labels.document IS 'Hash of the id of the document''s record, or of a text';
COMMENT ON COLUMN labels.label IS '1 or more: positive; 0 or less: not positive; between: neither; NULL: the label was removed';
COMMENT ON COLUMN labels.annotator IS 'Annotator, or NULL';
COMMENT ON COLUMN labels.added_version IS 'Version that added it';

CREATE TABLE _internal.label_ids (
    hash UBIGINT NOT NULL,
    id VARCHAR NOT NULL
);
COMMENT ON TABLE _internal.label_ids IS 'Ids of labels without a record, so that labels can be exported';
COMMENT ON COLUMN _internal.label_ids.hash IS 'Lower 64 bits of the MD5 of the id';
COMMENT ON COLUMN _internal.label_ids.id IS 'The id of the record: source/key';

CREATE MACRO _internal.text_side(text_hash) AS xor(text_hash, 8387229868953896823::UBIGINT);
COMMENT ON MACRO _internal.text_side IS 'How labels name a text: by its hash, changed so that it differs from the hash of an id';

CREATE MACRO _internal.newest_label(label, version) AS nullif(
    max({'version': version, 'label': coalesce(label, '-Infinity'::DOUBLE)}).label, '-Infinity'::DOUBLE
);
COMMENT ON MACRO _internal.newest_label IS
    'The newest of several labels, and the greatest of a version; NULL if it was removed';

CREATE MACRO _internal.labelled_pairs(at_version) AS TABLE
WITH sides AS (
    SELECT
        chunks.section_key, chunks.text_hash,
        unnest([_internal.text_side(chunks.text_hash), records.id_hash]) AS side
    FROM chunks
    JOIN records ON records.record_key = chunks.record_key
)
SELECT
    anchors.section_key AS anchor_section_key, anchors.text_hash AS anchor_hash,
    others.section_key AS negative_section_key, others.text_hash,
    _internal.newest_label(labels.label, labels.added_version) AS label
FROM labels
JOIN sides AS anchors ON anchors.side = labels.anchor
JOIN sides AS others ON others.side = labels.document
WHERE labels.added_version <= at_version
GROUP BY ALL;
COMMENT ON MACRO TABLE _internal.labelled_pairs IS
    'Labelled windows of anchors and documents at a version, with the current label';

CREATE VIEW qrels AS
WITH held AS (
    SELECT
        anchor, document, _internal.newest_label(label, added_version) AS label,
        arg_max(annotator, added_version) AS annotator
    FROM labels
    GROUP BY anchor, document
),

-- Ids as in the source, without the name of the source.
ids AS (
    SELECT id_hash, substring(record_id, length(source) + 2) AS id, source, split
    FROM live_records
    UNION ALL
    SELECT hash, substring(id, instr(id, '/') + 1), NULL, NULL
    FROM _internal.label_ids
    WHERE hash NOT IN (SELECT id_hash FROM live_records)
)
SELECT
    queries.id AS query_id, documents.id AS document_id, held.label, held.annotator,
    queries.source, queries.split
FROM held
JOIN ids AS queries ON queries.id_hash = held.anchor
JOIN ids AS documents ON documents.id_hash = held.document
WHERE held.label IS NOT NULL;
COMMENT ON VIEW qrels IS 'Current labels between records, by the ids of the source; labels of texts are in labels only';
COMMENT ON COLUMN qrels.query_id IS 'Id of the query, without the name of its source';
COMMENT ON COLUMN qrels.document_id IS 'Id of the document, without the name of its source';
COMMENT ON COLUMN qrels.label IS 'How well the document answers the query: 1 or more is a positive';
COMMENT ON COLUMN qrels.annotator IS 'Annotator; qrels for labels of an ingest';
COMMENT ON COLUMN qrels.source IS 'Source of the query; NULL if no record has it';
COMMENT ON COLUMN qrels.split IS 'Split of the query, or NULL';

CREATE MACRO _internal.cut_by(
    score, positive_score, absolute_margin, relative_margin, min_score, max_score
) AS CASE
    WHEN score + absolute_margin > positive_score THEN 'absolute_margin'
    WHEN score > positive_score - abs(positive_score) * relative_margin THEN 'relative_margin'
    WHEN score > max_score THEN 'max_score'
    WHEN score < min_score THEN 'min_score'
END;
COMMENT ON MACRO _internal.cut_by IS 'The cut that excludes a candidate, or NULL; cuts that are NULL are off';

-- Candidates are in files next to the corpus. The views are empty before the first mining; after it
-- duckplets/mining/views.py replaces these three.
CREATE VIEW minings AS
SELECT
    mining."key" AS generation, mining.recipe, mining.source, mining.split, mining.scorer,
    mining.anchors, mining.candidates, mining.searched, mining.corpus_version, mining.definition,
    mining.settings, mining.counts, mining.finished_at, mining.files, mining.positive_files
FROM (
    SELECT unnest(from_json('[]', '[{
        "key": "INTEGER", "recipe": "VARCHAR", "source": "VARCHAR", "split": "VARCHAR",
        "scorer": "VARCHAR", "anchors": "BIGINT", "candidates": "BIGINT", "searched": "BIGINT",
        "corpus_version": "BIGINT", "definition": "JSON", "settings": "JSON",
        "counts": "MAP(VARCHAR, BIGINT)", "finished_at": "TIMESTAMP", "files": ["VARCHAR"],
        "positive_files": ["VARCHAR"]
    }]')) AS mining
);

CREATE VIEW candidates AS
SELECT
    '' AS recipe, '' AS source, '' AS split, '' AS scorer, 0 AS generation,
    0::BIGINT AS anchor_section_key, 0 AS rank, 0::BIGINT AS negative_section_key,
    0::DOUBLE AS score, 0::DOUBLE AS positive_score, 0 AS positive_rank
WHERE FALSE;

CREATE VIEW mined_positives AS
SELECT
    '' AS recipe, '' AS source, '' AS split, '' AS scorer, 0 AS generation,
    0::BIGINT AS anchor_section_key, 0::BIGINT AS positive_section_key, 0::DOUBLE AS score, 0 AS rank
WHERE FALSE;
COMMENT ON VIEW minings IS 'Mined candidates in use: the newest mining of each recipe, source, split and scorer';
COMMENT ON COLUMN minings.generation IS 'Its number, which counts up';
COMMENT ON COLUMN minings.recipe IS 'Name of the recipe';
COMMENT ON COLUMN minings.source IS 'Name of the source';
COMMENT ON COLUMN minings.split IS 'The split';
COMMENT ON COLUMN minings.scorer IS 'Name of the scorer, such as bm25';
COMMENT ON COLUMN minings.anchors IS 'Sections of anchors';
COMMENT ON COLUMN minings.candidates IS 'Candidates of all these anchors';
COMMENT ON COLUMN minings.searched IS 'Documents that may be negatives';
COMMENT ON COLUMN minings.corpus_version IS 'Corpus version of its build';
COMMENT ON COLUMN minings.definition IS 'Selectors and strategy of its recipe';
COMMENT ON COLUMN minings.settings IS 'Settings of the search';
COMMENT ON COLUMN minings.counts IS 'Documents by outcome';
COMMENT ON COLUMN minings.finished_at IS 'UTC';
COMMENT ON COLUMN minings.files IS 'Its files in the folder of candidates';
COMMENT ON COLUMN minings.positive_files IS 'Its files with score and rank of every positive';
COMMENT ON VIEW candidates IS 'All mined candidates, before any cut, best first';
COMMENT ON COLUMN candidates.recipe IS 'Recipe of the mining';
COMMENT ON COLUMN candidates.source IS 'Source of both';
COMMENT ON COLUMN candidates.split IS 'Split of both';
COMMENT ON COLUMN candidates.scorer IS 'Name of the scorer';
COMMENT ON COLUMN candidates.generation IS 'Number of the mining';
COMMENT ON COLUMN candidates.anchor_section_key IS 'Section of the anchor';
COMMENT ON COLUMN candidates.rank IS 'From 1, the best first';
COMMENT ON COLUMN candidates.negative_section_key IS 'Section of the candidate';
COMMENT ON COLUMN candidates.score IS 'Score by which it was ranked';
COMMENT ON COLUMN candidates.positive_score IS 'Score of the anchor''s lowest-scoring positive; NULL if none was ranked';
COMMENT ON COLUMN candidates.positive_rank IS 'Rank of that positive among the candidates, from 1; NULL if it has none';
COMMENT ON VIEW mined_positives IS 'Every positive of mined anchors, with its score and rank';
COMMENT ON COLUMN mined_positives.recipe IS 'Recipe of the mining';
COMMENT ON COLUMN mined_positives.source IS 'Source of the anchor';
COMMENT ON COLUMN mined_positives.split IS 'Split of the anchor';
COMMENT ON COLUMN mined_positives.scorer IS 'Name of the scorer';
COMMENT ON COLUMN mined_positives.generation IS 'Number of the mining';
COMMENT ON COLUMN mined_positives.anchor_section_key IS 'Section of the anchor';
COMMENT ON COLUMN mined_positives.positive_section_key IS 'Section of the positive';
COMMENT ON COLUMN mined_positives.score IS 'Score by which it was ranked; NULL if it was not ranked';
COMMENT ON COLUMN mined_positives.rank IS '1 + the number of legal negatives with a higher score; NULL if it was not ranked';

-- The newest mining of each recipe, source and split, by the recipe's scorer or by any scorer.
CREATE VIEW negatives AS
WITH policies AS (
    SELECT
        name AS recipe,
        CASE json_type(definition, '$.by')
            WHEN 'VARCHAR' THEN nullif(definition ->> '$.by', 'random')
            WHEN 'OBJECT' THEN json_keys(definition, '$.by')[1]
        END AS scorer,
        CASE json_type(definition, '$.by')
            WHEN 'OBJECT' THEN json_extract(definition, '$.by.*')[1]
        END AS cut
    FROM recipes
),

drawn AS (
    SELECT
        minings.generation,
        (policies.cut ->> '$.absolute_margin')::DOUBLE AS absolute_margin,
        coalesce(
            (policies.cut ->> '$.relative_margin')::DOUBLE,
            CASE minings.scorer WHEN 'dense' THEN 0.05 END
        ) AS relative_margin,
        (policies.cut ->> '$.min_score')::DOUBLE AS min_score,
        (policies.cut ->> '$.max_score')::DOUBLE AS max_score,
        coalesce((policies.cut ->> '$.range_min')::INTEGER, 0) AS range_min,
        coalesce((policies.cut ->> '$.range_max')::INTEGER, 16) AS range_max
    FROM minings
    LEFT JOIN policies ON policies.recipe = minings.recipe
    WHERE minings.scorer = coalesce(policies.scorer, minings.scorer)
    QUALIFY minings.generation = max(minings.generation)
        OVER (PARTITION BY minings.recipe, minings.source, minings.split)
)

SELECT
    candidates.recipe, candidates.anchor_section_key, candidates.rank,
    candidates.negative_section_key, candidates.score, candidates.source, candidates.split,
    candidates.scorer
FROM candidates
JOIN drawn ON drawn.generation = candidates.generation
ANTI JOIN (
    SELECT anchor_section_key, negative_section_key
    FROM _internal.labelled_pairs((SELECT max(version) FROM corpus_versions))
    WHERE label > 0
) AS labelled
    ON labelled.anchor_section_key = candidates.anchor_section_key
    AND labelled.negative_section_key = candidates.negative_section_key
WHERE
    _internal.cut_by(
        candidates.score, candidates.positive_score,
        drawn.absolute_margin, drawn.relative_margin, drawn.min_score, drawn.max_score
    ) IS NULL
QUALIFY row_number() OVER (
    PARTITION BY candidates.generation, candidates.anchor_section_key ORDER BY candidates.rank
) BETWEEN drawn.range_min + 1 AND drawn.range_max;
COMMENT ON VIEW negatives IS 'The hard negatives of a new run: candidates that pass the policies of recipes';
COMMENT ON COLUMN negatives.recipe IS 'Recipe of the mining';
COMMENT ON COLUMN negatives.anchor_section_key IS 'Section of the anchor';
COMMENT ON COLUMN negatives.rank IS 'Among all candidates, from 1, the hardest first';
COMMENT ON COLUMN negatives.negative_section_key IS 'Section of the negative';
COMMENT ON COLUMN negatives.score IS 'Score by which it was ranked';
COMMENT ON COLUMN negatives.source IS 'Source of both';
COMMENT ON COLUMN negatives.split IS 'Split of both';
COMMENT ON COLUMN negatives.scorer IS 'Name of the scorer, such as bm25';

CREATE VIEW hard_negatives AS
SELECT
    negatives.recipe, negatives.source, negatives.split, anchor_records.record_id AS anchor_record_id,
    anchors.text AS anchor, negatives.rank, negatives.score,
    negative_records.record_id AS negative_record_id, texts.text AS negative
FROM negatives
JOIN sections AS anchors ON anchors.section_key = negatives.anchor_section_key
JOIN records AS anchor_records ON anchor_records.record_key = anchors.record_key
JOIN sections AS texts ON texts.section_key = negatives.negative_section_key
JOIN records AS negative_records ON negative_records.record_key = texts.record_key;
COMMENT ON VIEW hard_negatives IS 'The hard negatives of a new run, with record ids and texts';
COMMENT ON COLUMN hard_negatives.recipe IS 'Recipe of the mining';
COMMENT ON COLUMN hard_negatives.source IS 'Source of both records';
COMMENT ON COLUMN hard_negatives.split IS 'Split of both records';
COMMENT ON COLUMN hard_negatives.anchor_record_id IS 'Id of the record of the anchor';
COMMENT ON COLUMN hard_negatives.anchor IS 'Text of the anchor';
COMMENT ON COLUMN hard_negatives.rank IS 'Among all candidates, from 1, the hardest first';
COMMENT ON COLUMN hard_negatives.score IS 'The score that gave the rank';
COMMENT ON COLUMN hard_negatives.negative_record_id IS 'Id of the record of the negative';
COMMENT ON COLUMN hard_negatives.negative IS 'Text of the negative';

CREATE VIEW judgement_counts AS
SELECT source, outcome, gate, rule, count(*) AS "rows"
FROM judgements
GROUP BY ALL
ORDER BY ALL;
COMMENT ON VIEW judgement_counts IS 'Rows of each source by outcome, gate and rule';
COMMENT ON COLUMN judgement_counts.source IS 'Name of the source';
COMMENT ON COLUMN judgement_counts.outcome IS 'accepted, filtered, rejected or unreadable';
COMMENT ON COLUMN judgement_counts.gate IS 'The first failed gate, or NULL';
COMMENT ON COLUMN judgement_counts.rule IS 'The rule of the gate, or the reason why they were unreadable';
COMMENT ON COLUMN judgement_counts."rows" IS 'Number of rows';

CREATE VIEW rejected_texts AS
SELECT
    judgements.source, judgements.file, judgements."row", judgements.gate, judgements.rule,
    array_to_string(
        [
            section.text
            FOR section IN rejected_rows.sections
            IF section.text IS NOT NULL AND section.role <> 'rejected'
        ],
        chr(10) || chr(10)
    ) AS text
FROM _internal.rejected_rows
JOIN judgements
    ON judgements.source_id = rejected_rows.source_id AND judgements."row" = rejected_rows."row";
COMMENT ON VIEW rejected_texts IS 'The stored texts of rejected rows, with the reason';
COMMENT ON COLUMN rejected_texts.source IS 'Name of the source';
COMMENT ON COLUMN rejected_texts.file IS 'Its file, or NULL';
COMMENT ON COLUMN rejected_texts."row" IS 'Its number in the source, from 1';
COMMENT ON COLUMN rejected_texts.gate IS 'The gate that rejected it';
COMMENT ON COLUMN rejected_texts.rule IS 'The rule of that gate';
COMMENT ON COLUMN rejected_texts.text IS 'Its sections but rejected replies, joined by a blank line';

-- The columns for selectors and conditions, and for the guards of mining.
-- A family is a number: the key of the record, or a number below 0 from the name of its group. A
-- writing is a window or its whole section, normalised. Chunks that share one are written alike.
CREATE MACRO _internal.chunks_without_text(of_source, of_split, at_version) AS TABLE
SELECT
    chunks.chunk_key, chunks.record_key, chunks.section_key, chunks.text_hash, chunks.kind,
    chunks.window_index, sections.position, sections.role, sections.heading,
    sections.token_count, records.record_id, records.date, records.group_key, records.taxonomy,
    records.meta, records.trust, records.created_at, records.updated_at, records.label,
    sources.name AS source, records.added_version, records.id_hash,
    coalesce(-1 - (md5_number_lower(records.group_key) >> 1)::BIGINT, records.record_key) AS family,
    sections.normalised_hash AS question,
    [chunks.text_hash, xor(sections.normalised_hash, 1)] AS writings
FROM chunks
JOIN _internal.stored_sections AS sections ON sections.section_key = chunks.section_key
JOIN records ON records.record_key = chunks.record_key
JOIN splits ON splits.record_key = chunks.record_key
JOIN sources ON sources.source_id = records.source_id
WHERE
    _internal.in_split(splits.split, of_split) AND (of_source IS NULL OR sources.name = of_source)
    AND _internal.is_live(
        records.added_version, records.removed_version, coalesce(at_version, 9223372036854775807)
    );
COMMENT ON MACRO TABLE _internal.chunks_without_text IS
    'The rows of chunks_of without their texts, which may lie in files';

CREATE MACRO chunks_of(of_source, of_split := 'train', at_version := NULL) AS TABLE
SELECT
    slot.chunk_key, slot.record_key, slot.section_key, slot.text_hash, slot.kind,
    slot.window_index, slot.position, slot.role, slot.heading, sections.text,
    slot.token_count, slot.record_id, slot.date, slot.group_key, slot.taxonomy,
    slot.meta, slot.trust, slot.created_at, slot.updated_at, slot.label,
    slot.source, slot.added_version, slot.id_hash, slot.family, slot.question, slot.writings
FROM _internal.chunks_without_text(of_source, of_split, at_version) AS slot
JOIN sections ON sections.section_key = slot.section_key;
COMMENT ON MACRO TABLE chunks_of IS
    'Chunks of a source (NULL: all) in a split at a version (NULL: the newest), with all that conditions see, the family (number of a group or record), the question (hash of the normalised section) and the writings (chunks that share one are written alike)';

-- BM25 as in match_bm25 of the fts extension (k = 1.2, b = 0.75, log10), with the documents of several
-- indexes as one collection. The parts of a score are added as integers (2^-56), so the order of the
-- sum does not change the result.
CREATE MACRO _internal.ranked_sections(wanted, k) AS TABLE
WITH scope AS (
    SELECT place.index_key, place.terms AS asked
    FROM (SELECT unnest(wanted) AS place)
),
totals AS (
    SELECT
        sum(text_indexes.documents)::DOUBLE AS documents,
        sum(text_indexes.tokens) / sum(text_indexes.documents) AS mean_length
    FROM _internal.text_indexes
    SEMI JOIN scope ON scope.index_key = text_indexes.index_key
),
found AS (
    SELECT index_terms.index_key, index_terms.term_key, index_terms.term, index_terms.document_count
    FROM _internal.index_terms
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
    FROM _internal.index_postings
    JOIN found
        ON found.index_key = index_postings.index_key
        AND found.term_key = index_postings.term_key
    JOIN weights ON weights.term = found.term
    JOIN _internal.index_documents
        ON index_documents.index_key = index_postings.index_key
        AND index_documents.document = index_postings.document
    CROSS JOIN totals
    GROUP BY index_postings.index_key, index_postings.document
),
best AS (
    SELECT index_key, document, score
    FROM scores
    -- Select before the join with texts; ties with the last row stay, because ids order them.
    WHERE score >= (SELECT min(score) FROM (SELECT score FROM scores ORDER BY score DESC LIMIT k))
)
SELECT
    live_records.record_id, best.score, sections.text, live_records.source, live_records.split,
    sections.position, sections.role, best.index_key
FROM best
JOIN _internal.index_documents
    ON index_documents.index_key = best.index_key AND index_documents.document = best.document
JOIN sections ON sections.section_key = index_documents.section_key
JOIN live_records ON live_records.record_key = sections.record_key
ORDER BY best.score DESC, live_records.record_id, sections.position
LIMIT k;
COMMENT ON MACRO TABLE _internal.ranked_sections IS
    'The k best sections for terms of each index: [{''index_key'': 1, ''terms'': [''fox'']}]';

-- The term of a word is in index_words. A word that no section has takes the term of its longest
-- stored prefix of three or more letters, because no stemmer runs here.
CREATE MACRO search(text, k := 10, source := NULL, split := NULL) AS TABLE
WITH given AS (
    SELECT _internal.folded(text) AS plain, source AS of_source, split AS of_split
),
scope AS (
    SELECT
        text_indexes.index_key, given.plain, text_indexes.terms ->> 'words' IS NULL AS in_pairs,
        '(' || (text_indexes.terms ->> 'ignore') || ')|[\t\n\f\r]' AS ignored
    FROM given
    JOIN sources
        ON sources.removed_version IS NULL AND sources.name = coalesce(given.of_source, sources.name)
    JOIN _internal.text_indexes
        ON text_indexes.source_id = sources.source_id
        AND _internal.in_split(text_indexes.split, coalesce(given.of_split, text_indexes.split))
),
asked AS (
    SELECT DISTINCT unnest(CASE WHEN in_pairs
        THEN _internal.split_words(regexp_replace(plain, ignored, ' ', 'g'))
        ELSE string_split(regexp_replace(plain, ignored, ' ', 'g'), ' ') END) AS word
    FROM scope
),
found AS (
    SELECT index_words.index_key, index_words.term_key
    FROM asked
    JOIN _internal.index_words
        ON starts_with(asked.word, index_words.word)
        AND (
            asked.word = index_words.word
            OR (length(index_words.word) > 2 AND index_words.term_key IS NOT NULL)
        )
    SEMI JOIN scope ON scope.index_key = index_words.index_key
    QUALIFY length(index_words.word) = max(length(index_words.word)) OVER (PARTITION BY asked.word)
),
wanted AS (
    SELECT list(DISTINCT index_terms.term) AS terms
    FROM found
    JOIN _internal.index_terms
        ON index_terms.index_key = found.index_key AND index_terms.term_key = found.term_key
)
SELECT hits.record_id, hits.score, hits.text
FROM _internal.ranked_sections(
    (
        SELECT
            coalesce(
                list({'index_key': scope.index_key, 'terms': wanted.terms}),
                error('There is no full-text index of this source and split; build it: duckplets search FILE TEXT')
            )
        FROM scope
        CROSS JOIN wanted
    ),
    k
) AS hits;
COMMENT ON MACRO TABLE search IS
    'The k best sections for a text, by BM25: record_id, score, text. FROM search(''red foxes'', k := 5)';
