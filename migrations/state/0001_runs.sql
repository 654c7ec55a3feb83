-- The state file: what runs there are and where they stand. Opened for writing only for the
-- moment of a save, so that others can look at it in between.
CREATE TABLE runs (
    run VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,
    corpus_version BIGINT NOT NULL,
    order_version INTEGER NOT NULL,
    settings JSON NOT NULL,
    fingerprint JSON NOT NULL,
    created_at TIMESTAMP NOT NULL
);
COMMENT ON TABLE runs IS 'What each run draws from and how';
COMMENT ON COLUMN runs.run IS 'Name; default where none was given';
COMMENT ON COLUMN runs.kind IS 'triplets, pairs or texts';
COMMENT ON COLUMN runs.corpus_version IS 'The corpus version it is pinned to';
COMMENT ON COLUMN runs.order_version IS 'The version of the order its positions are numbered in';
COMMENT ON COLUMN runs.settings IS 'Everything needed to open the sampler again, recipes included';
COMMENT ON COLUMN runs.fingerprint IS 'What must agree for a cursor to be valid, field by field';
COMMENT ON COLUMN runs.created_at IS 'Time of its first save; UTC';

CREATE TABLE cursors (
    run VARCHAR NOT NULL,
    tag VARCHAR,
    position BIGINT NOT NULL,
    step BIGINT NOT NULL,
    epoch BIGINT NOT NULL,
    saved_at TIMESTAMP NOT NULL
);
COMMENT ON TABLE cursors IS 'Where each run stands: its latest save (tag NULL) and its named checkpoints';
COMMENT ON COLUMN cursors.run IS 'The run';
COMMENT ON COLUMN cursors.tag IS 'Name of a checkpoint; NULL for the latest save';
COMMENT ON COLUMN cursors.position IS 'First position not yet taken';
COMMENT ON COLUMN cursors.step IS 'First step not yet taken';
COMMENT ON COLUMN cursors.epoch IS 'Nominal epoch of that position';
COMMENT ON COLUMN cursors.saved_at IS 'UTC';

CREATE TABLE weight_events (
    run VARCHAR NOT NULL,
    step BIGINT NOT NULL,
    weights JSON NOT NULL,
    saved_at TIMESTAMP NOT NULL
);
COMMENT ON TABLE weight_events IS 'The source weights each run was given, from which step on';
COMMENT ON COLUMN weight_events.run IS 'The run';
COMMENT ON COLUMN weight_events.step IS 'First step they are in force; 0 for those it started with';
COMMENT ON COLUMN weight_events.weights IS 'Weight of each source, by name';
COMMENT ON COLUMN weight_events.saved_at IS 'UTC';
