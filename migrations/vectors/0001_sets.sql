-- The vector file: sets of vectors of texts, by the hash of the text. It is opened for writing only
-- during a commit. Every set has two tables more, N being its set_id. packed_vectors_N(text_hash
-- UBIGINT, number INTEGER, vector BLOB) stores the vectors. The view vectors_N(text_hash, number,
-- vector FLOAT[dimension]) is for users.
CREATE TABLE vector_sets (
    set_id BIGINT NOT NULL,
    name VARCHAR NOT NULL,
    dimension INTEGER NOT NULL,
    dtype VARCHAR NOT NULL,
    made_by JSON NOT NULL,
    created_at TIMESTAMP NOT NULL
);
COMMENT ON TABLE vector_sets IS 'Sets of vectors: one dimension and one maker each';
COMMENT ON COLUMN vector_sets.set_id IS 'Number of the set; packed_vectors_N stores its vectors, and the view vectors_N has floats';
COMMENT ON COLUMN vector_sets.name IS 'Name of the run, by default default';
COMMENT ON COLUMN vector_sets.dimension IS 'Numbers in a vector';
COMMENT ON COLUMN vector_sets.dtype IS 'float32 or float16';
COMMENT ON COLUMN vector_sets.made_by IS 'Maker of the vectors; another maker is refused';
COMMENT ON COLUMN vector_sets.created_at IS 'UTC';

CREATE TABLE vector_commits (
    set_id BIGINT NOT NULL,
    number INTEGER NOT NULL,
    digest VARCHAR NOT NULL,
    vectors BIGINT NOT NULL,
    dropped BIGINT NOT NULL,
    committed_at TIMESTAMP NOT NULL
);
COMMENT ON TABLE vector_commits IS 'Commits of sets: vectors that were added at once; a run is pinned to the last commit';
COMMENT ON COLUMN vector_commits.set_id IS 'The set';
COMMENT ON COLUMN vector_commits.number IS 'Counts from 1 in each set';
COMMENT ON COLUMN vector_commits.digest IS 'SHA-256 over the digest before, the digest of the hashes and the digest of the vectors of this commit';
COMMENT ON COLUMN vector_commits.vectors IS 'Number of vectors that this commit added';
COMMENT ON COLUMN vector_commits.dropped IS 'Number of these that compact removed since, because no needed corpus version has their texts';
COMMENT ON COLUMN vector_commits.committed_at IS 'UTC';

CREATE TABLE vector_failures (
    set_id BIGINT NOT NULL,
    text_hash UBIGINT NOT NULL,
    reason VARCHAR NOT NULL,
    failed_at TIMESTAMP NOT NULL
);
COMMENT ON TABLE vector_failures IS 'Texts whose last embedding failed';
COMMENT ON COLUMN vector_failures.set_id IS 'The set';
COMMENT ON COLUMN vector_failures.text_hash IS 'Lower 64 bits of the MD5 of the text, as in chunks.text_hash';
COMMENT ON COLUMN vector_failures.reason IS 'The reason';
COMMENT ON COLUMN vector_failures.failed_at IS 'UTC';

-- The bytes of a vector are its numbers with the least byte first; BIT takes the greatest byte first.
CREATE MACRO floats_of_float32(bytes) AS list_transform(
    range(octet_length(bytes) // 4),
    lambda i: CAST(CAST(
        bytes[4 * i + 4:4 * i + 4] || bytes[4 * i + 3:4 * i + 3]
        || bytes[4 * i + 2:4 * i + 2] || bytes[4 * i + 1:4 * i + 1] AS BIT
    ) AS FLOAT)
);
CREATE MACRO float_of_half(bits) AS CAST(
    CASE WHEN bits >= 32768 THEN -1 ELSE 1 END
    * CASE
        WHEN (bits >> 10) & 31 = 0 THEN (bits & 1023) * pow(2, -24)
        ELSE (1024 + (bits & 1023)) * pow(2, ((bits >> 10) & 31) - 25)
    END AS FLOAT
);
CREATE MACRO floats_of_float16(bytes) AS list_transform(
    range(octet_length(bytes) // 2),
    lambda i: float_of_half(CAST(CAST(
        CAST('\x00\x00' AS BLOB) || bytes[2 * i + 2:2 * i + 2] || bytes[2 * i + 1:2 * i + 1] AS BIT
    ) AS INTEGER))
);
