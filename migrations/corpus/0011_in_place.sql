-- Texts that were left in the Parquet files they came from: of each section stands here where its
-- text is, and `sections` is a view that reads it there. `stored_sections` has all but those texts,
-- so what needs no text reads that, and opens no file. The view is made anew where files come or
-- go (duckplets/ingest/in_place.py).
ALTER TABLE sections RENAME TO stored_sections;
ALTER TABLE stored_sections ALTER COLUMN text DROP NOT NULL;
ALTER TABLE stored_sections ADD COLUMN file_key INTEGER;
ALTER TABLE stored_sections ADD COLUMN file_row BIGINT;
ALTER TABLE stored_sections ADD COLUMN item INTEGER;
COMMENT ON TABLE stored_sections IS 'The views of a record''s text, without the texts that were left in Parquet files; sections has all';
COMMENT ON COLUMN stored_sections.text IS 'The text as it came, white space included, or as preprocessors left it; NULL for one that was left in its file';
COMMENT ON COLUMN stored_sections.heading IS 'Name of the column it came from';
COMMENT ON COLUMN stored_sections.file_key IS 'The file in placed_files that has its text, or NULL';
COMMENT ON COLUMN stored_sections.file_row IS 'Row of that file, from 0';
COMMENT ON COLUMN stored_sections.item IS 'Which text of that name and role in its row it is, from 1: of a list the n-th that is not blank';

CREATE TABLE placed_files (
    file_key INTEGER NOT NULL,
    source_id INTEGER NOT NULL,
    path VARCHAR NOT NULL,
    size BIGINT NOT NULL,
    modified BIGINT NOT NULL,
    footer VARCHAR NOT NULL,
    columns JSON NOT NULL
);
COMMENT ON TABLE placed_files IS 'Parquet files that texts were left in';
COMMENT ON COLUMN placed_files.file_key IS 'Counts from 1, never used again';
COMMENT ON COLUMN placed_files.source_id IS 'The source it was read for';
COMMENT ON COLUMN placed_files.path IS 'Where it is, as it was given; if not from the root, then from the folder of the corpus';
COMMENT ON COLUMN placed_files.size IS 'Bytes it has';
COMMENT ON COLUMN placed_files.modified IS 'When it was written last, in ns since 1970';
COMMENT ON COLUMN placed_files.footer IS 'SHA-256 of its footer, which tells where everything in it is';
COMMENT ON COLUMN placed_files.columns IS 'For every heading its column, and whether that has lists: [[heading, column, is_list], …]';

CREATE VIEW sections AS
SELECT section_key, record_key, position, role, heading, text, token_count
FROM stored_sections;
COMMENT ON VIEW sections IS 'The views of a record''s text, each with its text, wherever that is';

CREATE OR REPLACE VIEW source_counts AS
WITH section_counts AS (
    SELECT record_key, count(*) AS sections, sum(token_count) AS tokens
    FROM stored_sections
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

CREATE OR REPLACE VIEW leading_sections AS
SELECT section_key, record_key
FROM stored_sections
WHERE role = 'anchor'
UNION ALL
SELECT arg_min(section_key, position) AS section_key, record_key
FROM stored_sections
GROUP BY record_key
HAVING NOT bool_or(role = 'anchor');
COMMENT ON VIEW leading_sections IS 'What equal texts are told by: the anchors of a record, or its first section if it has none';
