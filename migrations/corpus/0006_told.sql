-- What a corpus tells of itself: how each source is read, what its rows were set aside for, which
-- recipes and which weight it came with, and how large its pools are.
ALTER TABLE sources ADD COLUMN mapping JSON;
ALTER TABLE sources ADD COLUMN recipes JSON;
ALTER TABLE sources ADD COLUMN weight DOUBLE;
COMMENT ON COLUMN sources.mapping IS 'How its rows are read: columns, converter and what counts as text; NULL for one of an earlier version, which is read as it was then';
COMMENT ON COLUMN sources.recipes IS 'Definitions of the recipes it brought, in place of its defaults, or NULL';
COMMENT ON COLUMN sources.weight IS 'Its weight in the declared mixture, from a list of sources, or NULL';

ALTER TABLE quarantine ADD COLUMN file VARCHAR;
ALTER TABLE quarantine ADD COLUMN line BIGINT;
COMMENT ON TABLE quarantine IS 'Rows that could not be used, set aside by on_error="quarantine"';
COMMENT ON COLUMN quarantine.document IS 'The row as it came, as JSON; of a line that is no row its text';
COMMENT ON COLUMN quarantine.file IS 'The file it stood in, or NULL';
COMMENT ON COLUMN quarantine.line IS 'The line of the file it began at, from 1, or NULL';

-- One row a reason, and one without for the anchors that are drawn: what status shows is counted
-- once a version.
CREATE TABLE pool_counts (
    version BIGINT NOT NULL,
    content VARCHAR NOT NULL,
    reason VARCHAR,
    anchors BIGINT NOT NULL
);
COMMENT ON TABLE pool_counts IS 'How many anchors pools have, and what they leave out; counted anew where the content differs';
COMMENT ON COLUMN pool_counts.version IS 'Corpus version they were counted at';
COMMENT ON COLUMN pool_counts.content IS 'Digest of the pool''s statement, its parameters, and how records are split and chunked; or what else was counted';
COMMENT ON COLUMN pool_counts.reason IS 'Why they are left out; NULL for those that are drawn';
COMMENT ON COLUMN pool_counts.anchors IS 'How many';

CREATE MACRO last_key(of_what) AS
    coalesce((SELECT max((value ->> of_what)::BIGINT) FROM settings WHERE name = 'keys'), 0);
COMMENT ON MACRO last_key IS
    'The last key given out when the file was last compacted: what is gone takes no key along';
COMMENT ON COLUMN settings.name IS 'Stage: splits, chunking, terms, or keys, the last ones given out when it was compacted';

CREATE VIEW leading_sections AS
SELECT section_key, record_key
FROM sections
WHERE role = 'anchor'
UNION ALL
SELECT arg_min(section_key, position) AS section_key, record_key
FROM sections
GROUP BY record_key
HAVING NOT bool_or(role = 'anchor');
COMMENT ON VIEW leading_sections IS 'What equal texts are told by: the anchors of a record, or its first section if it has none';
