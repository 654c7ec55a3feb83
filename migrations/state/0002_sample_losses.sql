-- The samples of each step that were the hardest for a model, as a training loop reported them.
CREATE TABLE sample_losses (
    run VARCHAR NOT NULL,
    step BIGINT NOT NULL,
    position BIGINT NOT NULL,
    loss DOUBLE NOT NULL
);
COMMENT ON TABLE sample_losses IS 'The highest losses of samples that were reported during runs, at most 32 a step';
COMMENT ON COLUMN sample_losses.run IS 'The run';
COMMENT ON COLUMN sample_losses.step IS 'The step whose batch the sample is of';
COMMENT ON COLUMN sample_losses.position IS 'The position of the sample; served has its ids';
COMMENT ON COLUMN sample_losses.loss IS 'As it was reported last for that step';
