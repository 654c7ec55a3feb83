-- What passes over the text that was taken in have found: records that say the same, and records
-- that an evaluation set has as well.
CREATE TABLE clusters (
    version BIGINT NOT NULL,
    cluster BIGINT NOT NULL,
    record_key BIGINT NOT NULL,
    survivor BOOLEAN NOT NULL,
    similarity DOUBLE NOT NULL,
    action VARCHAR NOT NULL,
    settings JSON NOT NULL
);
COMMENT ON TABLE clusters IS 'Records whose texts are equal or nearly so, by deduplicate';
COMMENT ON COLUMN clusters.version IS 'Corpus version that was looked at; the one that removed them, if they were removed';
COMMENT ON COLUMN clusters.cluster IS 'Counts from 1 in each version';
COMMENT ON COLUMN clusters.record_key IS 'A record of the cluster';
COMMENT ON COLUMN clusters.survivor IS 'Whether it is the one that stays: the first by source_id and record_key';
COMMENT ON COLUMN clusters.similarity IS 'Jaccard similarity of its n-grams with those of the survivor; less than asked for where a third record links the two';
COMMENT ON COLUMN clusters.action IS 'What became of it: mark, or remove of all but the survivor';
COMMENT ON COLUMN clusters.settings IS 'What was asked for: near (NULL for equal texts only), ngram, bands, rows, seed, algorithm';

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
COMMENT ON COLUMN contaminations.version IS 'Corpus version that was looked at; the one that removed them, if they were removed';
COMMENT ON COLUMN contaminations.against IS 'The evaluation set: a split, a source or a path';
COMMENT ON COLUMN contaminations.record_key IS 'The record';
COMMENT ON COLUMN contaminations.matches IS 'How many n-grams of its text are in the evaluation set';
COMMENT ON COLUMN contaminations.ngram IS 'The first of them, as words';
COMMENT ON COLUMN contaminations.evaluation IS 'Where the evaluation set has that one first: a record id, or file and row';
COMMENT ON COLUMN contaminations.action IS 'What became of it: mark or remove';
COMMENT ON COLUMN contaminations.settings IS 'What was asked for: ngram and how the set was read';
