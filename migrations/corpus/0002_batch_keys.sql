-- Keys by which samples share batches, given as tables: of records, or of texts by their hash.
CREATE TABLE batch_keys (
    name VARCHAR NOT NULL,
    number INTEGER NOT NULL,
    key VARCHAR NOT NULL,
    record_id VARCHAR,
    text_hash UBIGINT
);
COMMENT ON TABLE batch_keys IS 'Keys by which samples share batches (batch_by=), a row a record or text';
COMMENT ON COLUMN batch_keys.name IS 'What batch_by= calls them';
COMMENT ON COLUMN batch_keys.number IS 'Place of the key in the order of keys, from 0; neighbours share mixed batches';
COMMENT ON COLUMN batch_keys.key IS 'The key';
COMMENT ON COLUMN batch_keys.record_id IS 'The record, or NULL where it is a text';
COMMENT ON COLUMN batch_keys.text_hash IS 'Hash of an anchor''s text as in chunks, or NULL where it is a record';
