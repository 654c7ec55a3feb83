-- What became of every row that was read through gates, and of every such intake.
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
COMMENT ON TABLE acquisitions IS 'Intakes through gates, one a row; the counts are as they were at intake';
COMMENT ON COLUMN acquisitions.acquisition_id IS 'Its number';
COMMENT ON COLUMN acquisitions.source_id IS 'The source it belongs to';
COMMENT ON COLUMN acquisitions.source IS 'Name of the source';
COMMENT ON COLUMN acquisitions.kind IS 'What sort of source it was read from';
COMMENT ON COLUMN acquisitions.uri IS 'Where it was read from, or NULL';
COMMENT ON COLUMN acquisitions.quality IS 'All settings of the gates; NULL for none but where, size_mb and limit';
COMMENT ON COLUMN acquisitions.fingerprint IS 'SHA-256 of the settings that decide, or NULL';
COMMENT ON COLUMN acquisitions.condition IS 'where=: rows for which it is not true were filtered';
COMMENT ON COLUMN acquisitions.size_mb IS 'Cap of accepted text of the source, in 10^6 bytes, or NULL';
COMMENT ON COLUMN acquisitions.row_limit IS 'limit=: cap of accepted records of the source, or NULL';
COMMENT ON COLUMN acquisitions.started_at IS 'UTC';
COMMENT ON COLUMN acquisitions.ended_at IS 'UTC; NULL while it is unfinished';
COMMENT ON COLUMN acquisitions."read" IS 'Rows read: accepted + filtered + rejected + unreadable';
COMMENT ON COLUMN acquisitions.accepted IS 'Rows that became records';
COMMENT ON COLUMN acquisitions.filtered IS 'Rows that where= or the source left out';
COMMENT ON COLUMN acquisitions.rejected IS 'Rows that a gate rejected';
COMMENT ON COLUMN acquisitions.unreadable IS 'Rows that could be no record anyway';
COMMENT ON COLUMN acquisitions.accepted_bytes IS 'UTF-8 bytes of the accepted texts';
COMMENT ON COLUMN acquisitions.first_record_key IS 'The next record''s key when it began: records before it came first';
COMMENT ON COLUMN acquisitions.last_row IS 'The last row of the source that was read';
COMMENT ON COLUMN acquisitions.rows_digest IS 'Of the contents of all rows of the source up to that one';
COMMENT ON COLUMN acquisitions.cursor IS 'Where the source goes on, not after that row; null for its beginning';
COMMENT ON COLUMN acquisitions.version IS 'Corpus version it made; 9223372036854775807 while it is unfinished';
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
COMMENT ON TABLE judgements IS 'What became of every row read through gates; unique by source, file and row';
COMMENT ON COLUMN judgements.judgement_key IS 'Its number, in the order in which rows were judged first';
COMMENT ON COLUMN judgements.acquisition_id IS 'The intake; NULL for a record without one that judge() has judged';
COMMENT ON COLUMN judgements.source_id IS 'The source';
COMMENT ON COLUMN judgements.source IS 'Name of the source';
COMMENT ON COLUMN judgements.file IS 'The file it stood in, or NULL';
COMMENT ON COLUMN judgements."row" IS 'Its number in the source, from 1; of a record without intake the record''s key, negative';
COMMENT ON COLUMN judgements.line IS 'The line of the file it began at, from 1, or NULL';
COMMENT ON COLUMN judgements.record_id IS 'The id that it has or would have as a record; NULL where unreadable';
COMMENT ON COLUMN judgements.record_key IS 'The record that it is, or was until judge() rejected it';
COMMENT ON COLUMN judgements.outcome IS 'accepted, filtered, rejected or unreadable';
COMMENT ON COLUMN judgements.gate IS 'The first gate that it failed: where, duplicates, schema, content, language_domain, or source for a row that its source left out';
COMMENT ON COLUMN judgements.rule IS 'The rule of the gate, or why it was unreadable';
COMMENT ON COLUMN judgements.digest IS 'SHA-256 of the text as it is stored, or would be: of all sections but rejected ones, joined by a blank line';
COMMENT ON COLUMN judgements.bytes IS 'Size of that text in UTF-8';
COMMENT ON COLUMN judgements.measured IS 'By which settings it was measured, in measurings; NULL where it was not';
COMMENT ON COLUMN judgements.metrics IS 'What was counted in the text before redaction; NULL for what was not measured';

CREATE TABLE measurings (
    measured VARCHAR NOT NULL,
    keys JSON NOT NULL
);
COMMENT ON TABLE measurings IS 'By which settings metrics were taken';
COMMENT ON COLUMN measurings.measured IS 'Digest of the keys';
COMMENT ON COLUMN measurings.keys IS 'Of each metric that was taken a key of what it depends on';

CREATE TABLE rejected_rows (
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
COMMENT ON TABLE rejected_rows IS 'Rows that gates rejected, with all that they would have as records, for judge()';
COMMENT ON COLUMN rejected_rows.acquisition_id IS 'The intake, as in judgements';
COMMENT ON COLUMN rejected_rows.source_id IS 'The source';
COMMENT ON COLUMN rejected_rows."row" IS 'Its number, as in judgements';
COMMENT ON COLUMN rejected_rows.record_id IS 'The id it would have';
COMMENT ON COLUMN rejected_rows.content_hash IS 'The first 64 bits of the SHA-256 of its content as it came';
COMMENT ON COLUMN rejected_rows.sections IS 'Its texts in order; a section that preprocessors dropped has an original and no text';
COMMENT ON COLUMN rejected_rows.date IS 'As in records, and so are those that follow';
COMMENT ON COLUMN rejected_rows.group_key IS 'As in records';
COMMENT ON COLUMN rejected_rows.taxonomy IS 'As in records';
COMMENT ON COLUMN rejected_rows.meta IS 'As in records';
COMMENT ON COLUMN rejected_rows.trust IS 'Of the row itself, or NULL';
COMMENT ON COLUMN rejected_rows.created_at IS 'As it came, or NULL';
COMMENT ON COLUMN rejected_rows.updated_at IS 'As it came, or NULL';
COMMENT ON COLUMN rejected_rows.messages IS 'As in conversations, or NULL';
COMMENT ON COLUMN rejected_rows.rejected_messages IS 'As in conversations, or NULL';
COMMENT ON COLUMN rejected_rows.prefix IS 'As the definition in record_prefixes, or NULL';
COMMENT ON COLUMN rejected_rows.label IS 'As in records';

CREATE TABLE record_hashes (
    record_key BIGINT NOT NULL,
    digest BLOB NOT NULL
);
COMMENT ON TABLE record_hashes IS 'The hashes of the texts of records, since there have been gates';
COMMENT ON COLUMN record_hashes.record_key IS 'The record';
COMMENT ON COLUMN record_hashes.digest IS 'SHA-256 of its sections but rejected ones, joined by a blank line';

CREATE VIEW judgement_counts AS
SELECT source, outcome, gate, rule, count(*) AS "rows"
FROM judgements
GROUP BY ALL
ORDER BY ALL;
COMMENT ON VIEW judgement_counts IS 'How many rows of each source ended how, by gate and rule';

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
FROM rejected_rows
JOIN judgements
    ON judgements.source_id = rejected_rows.source_id AND judgements."row" = rejected_rows."row";
COMMENT ON VIEW rejected_texts IS 'The texts of rejected rows, where they were kept, with the reason';
