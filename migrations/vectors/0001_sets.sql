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
COMMENT ON COLUMN vector_sets.set_id IS 'Number of the set; its vectors lie in packed_vectors_N, floats in the view vectors_N';
COMMENT ON COLUMN vector_sets.name IS 'Name; default where none was given';
COMMENT ON COLUMN vector_sets.dimension IS 'Numbers of every vector';
COMMENT ON COLUMN vector_sets.dtype IS 'float32 or float16';
COMMENT ON COLUMN vector_sets.made_by IS 'What makes the vectors: another maker is refused';
COMMENT ON COLUMN vector_sets.created_at IS 'UTC';

CREATE TABLE vector_commits (
    set_id BIGINT NOT NULL,
    number INTEGER NOT NULL,
    digest VARCHAR NOT NULL,
    vectors BIGINT NOT NULL,
    dropped BIGINT NOT NULL,
    committed_at TIMESTAMP NOT NULL
);
COMMENT ON TABLE vector_commits IS 'What was added to a set at once; a run is pinned to the last commit there was';
COMMENT ON COLUMN vector_commits.set_id IS 'The set';
COMMENT ON COLUMN vector_commits.number IS 'Counts from 1 in each set';
COMMENT ON COLUMN vector_commits.digest IS 'SHA-256 over the digest before, and those of the hashes and of the vectors of this commit';
COMMENT ON COLUMN vector_commits.vectors IS 'How many this commit has added';
COMMENT ON COLUMN vector_commits.dropped IS 'How many of them compact has taken away since: their texts are in no corpus version that is needed';
COMMENT ON COLUMN vector_commits.committed_at IS 'UTC';

CREATE TABLE vector_failures (
    set_id BIGINT NOT NULL,
    text_hash UBIGINT NOT NULL,
    reason VARCHAR NOT NULL,
    failed_at TIMESTAMP NOT NULL
);
COMMENT ON TABLE vector_failures IS 'Texts for which no vector could be made, the last time it was tried';
COMMENT ON COLUMN vector_failures.set_id IS 'The set';
COMMENT ON COLUMN vector_failures.text_hash IS 'Of the text: lower 64 bits of the MD5 of its bytes, as in chunks.text_hash';
COMMENT ON COLUMN vector_failures.reason IS 'What went wrong';
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
