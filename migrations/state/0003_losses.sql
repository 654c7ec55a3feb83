-- What a training loop reported of its losses, for whoever watches a run and for rules that give
-- weights by them.
CREATE TABLE losses (
    run VARCHAR NOT NULL,
    step BIGINT NOT NULL,
    source VARCHAR NOT NULL,
    loss DOUBLE NOT NULL
);
COMMENT ON TABLE losses IS 'Losses that were reported during runs: one a step and source, written at a save';
COMMENT ON COLUMN losses.run IS 'The run';
COMMENT ON COLUMN losses.step IS 'The step whose batch it is of';
COMMENT ON COLUMN losses.source IS 'The source whose samples it is of';
COMMENT ON COLUMN losses.loss IS 'As it was reported last for that step and source';
