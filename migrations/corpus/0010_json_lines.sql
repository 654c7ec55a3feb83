-- The files of JSON lines that intakes write beside the corpus, and how far each has come: what is
-- committed here is what has to stand there.
CREATE TABLE json_lines_files (
    path VARCHAR NOT NULL,
    inode UBIGINT NOT NULL,
    modified BIGINT
);
COMMENT ON TABLE json_lines_files IS 'Files of JSON lines that intakes have written (jsonl=), one a row';
COMMENT ON COLUMN json_lines_files.path IS 'Where it is, from the folder of the corpus';
COMMENT ON COLUMN json_lines_files.inode IS 'Number of the file in its file system: another file is not cut';
COMMENT ON COLUMN json_lines_files.modified IS 'When it was written last, in ns since 1970; NULL while it is being written, and then it may hold more than is committed';

CREATE TABLE json_lines (
    path VARCHAR NOT NULL,
    part INTEGER NOT NULL,
    acquisition_id INTEGER NOT NULL,
    source VARCHAR NOT NULL,
    first_byte BIGINT NOT NULL,
    end_byte BIGINT NOT NULL,
    first_key BIGINT NOT NULL,
    end_key BIGINT NOT NULL,
    lines BIGINT NOT NULL,
    digest VARCHAR NOT NULL
);
COMMENT ON TABLE json_lines IS 'Which lines of such a file an intake has written, one part a row';
COMMENT ON COLUMN json_lines.path IS 'The file, as in json_lines_files';
COMMENT ON COLUMN json_lines.part IS 'Counts from 1 in each file';
COMMENT ON COLUMN json_lines.acquisition_id IS 'The intake, whose accepted rows they are';
COMMENT ON COLUMN json_lines.source IS 'Name of the source';
COMMENT ON COLUMN json_lines.first_byte IS 'Where the part begins in the file';
COMMENT ON COLUMN json_lines.end_byte IS 'Where it ends; the largest is the size of the file';
COMMENT ON COLUMN json_lines.first_key IS 'The least record_key that it may have';
COMMENT ON COLUMN json_lines.end_key IS 'The first record_key after it';
COMMENT ON COLUMN json_lines.lines IS 'How many lines it has';
COMMENT ON COLUMN json_lines.digest IS 'SHA-256 of its bytes, in hexadecimal digits';
