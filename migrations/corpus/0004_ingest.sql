-- What interrupted ingests have stored so far, the rows that were set aside, the messages of
-- conversations, the texts that preprocessors changed, metadata prefixes, and index controls.
CREATE TABLE unfinished_ingests (
    name VARCHAR NOT NULL,
    source_id INTEGER NOT NULL,
    settings JSON NOT NULL,
    cursor JSON NOT NULL,
    counts JSON NOT NULL,
    started_at TIMESTAMP NOT NULL,
    saved_at TIMESTAMP NOT NULL
);
COMMENT ON TABLE unfinished_ingests IS 'Ingests that stopped half-way and can go on; their records are marked with version 9223372036854775807 until they are whole';
COMMENT ON COLUMN unfinished_ingests.name IS 'Of the source';
COMMENT ON COLUMN unfinished_ingests.source_id IS 'The source its records belong to';
COMMENT ON COLUMN unfinished_ingests.settings IS 'What is read and how: only the same request goes on from the cursor';
COMMENT ON COLUMN unfinished_ingests.cursor IS 'Where the source goes on';
COMMENT ON COLUMN unfinished_ingests.counts IS 'Rows read, added and skipped by reason, up to the cursor';
COMMENT ON COLUMN unfinished_ingests.started_at IS 'UTC';
COMMENT ON COLUMN unfinished_ingests.saved_at IS 'Of the cursor; UTC';

CREATE TABLE quarantine (
    source VARCHAR NOT NULL,
    version BIGINT NOT NULL,
    "row" BIGINT NOT NULL,
    reason VARCHAR NOT NULL,
    document VARCHAR
);
COMMENT ON TABLE quarantine IS 'Rows that a converter could not read, set aside by on_error="quarantine"';
COMMENT ON COLUMN quarantine.source IS 'Name of the source';
COMMENT ON COLUMN quarantine.version IS 'Version of the ingest that met it';
COMMENT ON COLUMN quarantine."row" IS 'Its number in the source, from 1';
COMMENT ON COLUMN quarantine.reason IS 'What is wrong with it, and in which field';
COMMENT ON COLUMN quarantine.document IS 'The row as it came, as JSON';

CREATE TABLE conversations (
    record_key BIGINT NOT NULL,
    messages VARCHAR NOT NULL USING COMPRESSION uncompressed,
    rejected_messages VARCHAR USING COMPRESSION uncompressed
);
COMMENT ON TABLE conversations IS 'The messages of records that were converted from instruction data';
COMMENT ON COLUMN conversations.record_key IS 'The record';
COMMENT ON COLUMN conversations.messages IS 'JSON list of {role, content: [{type, value}], loss_weight}; of a preference pair the chosen ones';
COMMENT ON COLUMN conversations.rejected_messages IS 'The rejected messages of a preference pair, or NULL';

CREATE TABLE section_originals (
    record_key BIGINT NOT NULL,
    position INTEGER NOT NULL,
    role VARCHAR NOT NULL,
    heading VARCHAR,
    text VARCHAR NOT NULL
);
COMMENT ON TABLE section_originals IS 'The texts that preprocessors changed or dropped, as they came';
COMMENT ON COLUMN section_originals.record_key IS 'The record';
COMMENT ON COLUMN section_originals.position IS 'Position of the section; without a row in sections the text was dropped';
COMMENT ON COLUMN section_originals.role IS 'Role of the section';
COMMENT ON COLUMN section_originals.heading IS 'Heading of the section';
COMMENT ON COLUMN section_originals.text IS 'The text before preprocessing';

CREATE TABLE record_prefixes (
    record_key BIGINT NOT NULL,
    definition JSON NOT NULL
);
COMMENT ON TABLE record_prefixes IS 'Metadata prefixes of single records';
COMMENT ON COLUMN record_prefixes.record_key IS 'The record';
COMMENT ON COLUMN record_prefixes.definition IS 'Probability, and variants: lists of fields with a key, renderings and presence';

CREATE TABLE source_prefixes (
    source_id INTEGER NOT NULL,
    version BIGINT NOT NULL,
    definition JSON
);
COMMENT ON TABLE source_prefixes IS 'Metadata prefixes for all records of a source that have none of their own; the last version counts';
COMMENT ON COLUMN source_prefixes.source_id IS 'The source';
COMMENT ON COLUMN source_prefixes.version IS 'Corpus version from which it holds';
COMMENT ON COLUMN source_prefixes.definition IS 'As in record_prefixes, with columns of a record in place of values; NULL for none';

CREATE TABLE index_controls (
    source_id INTEGER NOT NULL,
    size BIGINT,
    size_mode VARCHAR NOT NULL,
    weight DOUBLE NOT NULL,
    seed BIGINT NOT NULL
);
COMMENT ON TABLE index_controls IS 'How many of a source''s records an index lists, and how often';
COMMENT ON COLUMN index_controls.source_id IS 'The source';
COMMENT ON COLUMN index_controls.size IS 'Number of records, or NULL for all';
COMMENT ON COLUMN index_controls.size_mode IS 'first or sample';
COMMENT ON COLUMN index_controls.weight IS 'Copies of each record, 1 for one; applied after size';
COMMENT ON COLUMN index_controls.seed IS 'Of what is sampled';

COMMENT ON COLUMN sections.text IS 'The text as it came, white space included, or as preprocessors left it';
COMMENT ON COLUMN sections.role IS 'anchor, context, or rejected: the rejected reply of a preference pair';
COMMENT ON COLUMN sources.kind IS 'csv, json, parquet, arrow, text, memory, sql, hub, dataset, indexed, custom, or what a custom source says';
COMMENT ON COLUMN corpus_versions.what IS 'The verb: ingest, remove or prefix';
COMMENT ON COLUMN settings.name IS 'Stage: splits, chunking or terms';
