-- The state file: saved runs. It is opened for writing only during a save, so that others can read it
-- between saves.
CREATE TABLE saves (
    number BIGINT NOT NULL,
    run VARCHAR NOT NULL,
    tag VARCHAR,
    kind VARCHAR NOT NULL,
    corpus_version BIGINT NOT NULL,
    order_version INTEGER NOT NULL,
    position BIGINT NOT NULL,
    step BIGINT NOT NULL,
    epoch BIGINT NOT NULL,
    saved_at TIMESTAMP NOT NULL,
    joins BIGINT[][] NOT NULL,
    state JSON NOT NULL
);
COMMENT ON TABLE saves IS 'The latest save of every run (tag NULL) and its named checkpoints';
COMMENT ON COLUMN saves.number IS 'Counts up; the save with the largest number opens the run';
COMMENT ON COLUMN saves.run IS 'Name of the run, by default default';
COMMENT ON COLUMN saves.tag IS 'Name of a checkpoint; NULL for the latest save';
COMMENT ON COLUMN saves.kind IS 'triplets, pairs, texts, messages or tokens';
COMMENT ON COLUMN saves.corpus_version IS 'Corpus version of the run';
COMMENT ON COLUMN saves.order_version IS 'Version of the order of its positions';
COMMENT ON COLUMN saves.position IS 'First position that was not served';
COMMENT ON COLUMN saves.step IS 'First step that was not served';
COMMENT ON COLUMN saves.epoch IS 'Nominal epoch of that position';
COMMENT ON COLUMN saves.saved_at IS 'UTC';
COMMENT ON COLUMN saves.joins IS 'Step and number of every later corpus version that joined the run';
COMMENT ON COLUMN saves.state IS 'settings, fingerprint, events (weights set during the run), samples by source and counts';

CREATE VIEW runs AS
SELECT
    run, kind, corpus_version, order_version, saved_at,
    state -> 'settings' AS settings,
    state -> 'fingerprint' AS fingerprint
FROM saves
QUALIFY number = max(number) OVER (PARTITION BY run);
COMMENT ON VIEW runs IS 'Settings of each run, as of its last save';
COMMENT ON COLUMN runs.run IS 'Name of the run, by default default';
COMMENT ON COLUMN runs.kind IS 'triplets, pairs, texts, messages or tokens';
COMMENT ON COLUMN runs.corpus_version IS 'Corpus version of the run';
COMMENT ON COLUMN runs.order_version IS 'Version of the order of its positions';
COMMENT ON COLUMN runs.saved_at IS 'UTC';
COMMENT ON COLUMN runs.settings IS 'Everything needed to open the sampler again, recipes included';
COMMENT ON COLUMN runs.fingerprint IS 'Values that must agree for a cursor to be valid, by field';

CREATE VIEW cursors AS
SELECT
    run, tag, position, step, epoch, saved_at,
    state -> 'samples' AS samples,
    (state ->> '$.counts.position')::BIGINT AS counted_to,
    state -> '$.counts.sources' AS counts
FROM saves;
COMMENT ON VIEW cursors IS 'Position of each run: its latest save (tag NULL) and its named checkpoints';
COMMENT ON COLUMN cursors.run IS 'The run';
COMMENT ON COLUMN cursors.tag IS 'Name of a checkpoint; NULL for the latest save';
COMMENT ON COLUMN cursors.position IS 'First position that was not served';
COMMENT ON COLUMN cursors.step IS 'First step that was not served';
COMMENT ON COLUMN cursors.epoch IS 'Nominal epoch of that position';
COMMENT ON COLUMN cursors.saved_at IS 'UTC';
COMMENT ON COLUMN cursors.samples IS 'Samples before the position, by source';
COMMENT ON COLUMN cursors.counted_to IS 'Position up to which counts are stored';
COMMENT ON COLUMN cursors.counts IS 'Counts before that position, by source: [tokens, fallbacks, displaced]';

CREATE VIEW weight_events AS
SELECT
    run,
    (event ->> 0)::BIGINT AS step,
    event -> 1 AS weights,
    (event ->> 2)::DOUBLE AS temperature
FROM (
    SELECT run, unnest(state -> '$.events[*]') AS event
    FROM saves
    QUALIFY number = max(number) OVER (PARTITION BY run)
) AS events;
COMMENT ON VIEW weight_events IS 'Source weights that were set during runs; runs.settings has the first ones';
COMMENT ON COLUMN weight_events.run IS 'The run';
COMMENT ON COLUMN weight_events.step IS 'First step with these values';
COMMENT ON COLUMN weight_events.weights IS 'Weights by name, which override the declared ones';
COMMENT ON COLUMN weight_events.temperature IS 'Temperature of the mixture from that step on; NULL: the declared one';

-- A save adds rows from the first step whose shares differ from the shares of the save before.
CREATE TABLE source_shares (
    run VARCHAR NOT NULL,
    start_step BIGINT NOT NULL,
    source VARCHAR NOT NULL,
    share DOUBLE NOT NULL
);
COMMENT ON TABLE source_shares IS 'Shares of the sources of runs, at every change; the view shares also has their last steps';
COMMENT ON COLUMN source_shares.run IS 'The run';
COMMENT ON COLUMN source_shares.start_step IS 'First step with these values';
COMMENT ON COLUMN source_shares.source IS 'The source';
COMMENT ON COLUMN source_shares.share IS 'Part of the samples, from 0 to 1';

CREATE VIEW shares AS
SELECT
    run, start_step,
    lead(start_step) OVER (PARTITION BY run, source ORDER BY start_step) AS stop_step,
    source, share
FROM source_shares;
COMMENT ON VIEW shares IS 'Shares of sources over time, with phases and weights that were set during runs, as of the last save';
COMMENT ON COLUMN shares.run IS 'The run';
COMMENT ON COLUMN shares.start_step IS 'First step with this share';
COMMENT ON COLUMN shares.stop_step IS 'The step after the last one; NULL if it never changes';
COMMENT ON COLUMN shares.source IS 'The source';
COMMENT ON COLUMN shares.share IS 'Part of the samples, from 0 to 1; in an anneal the mean of some steps';

CREATE VIEW run_recipes AS
SELECT
    run, source, recipe ->> 'name' AS recipe, recipe ->> 'kind' AS kind,
    (recipe ->> 'weight')::DOUBLE AS weight, recipe AS definition
FROM (
    SELECT run, sources.entry.key AS source, unnest(sources.entry.value) AS recipe
    FROM (
        SELECT run, unnest(map_entries(of_version)) AS entry
        FROM (
            SELECT
                run,
                unnest(list_concat(
                    [from_json(settings -> 'recipes', '"MAP(VARCHAR, JSON[])"')],
                    from_json(settings -> '$.joins[*].recipes', '["MAP(VARCHAR, JSON[])"]')
                )) AS of_version
            FROM runs
        ) AS versions
    ) AS sources
) AS recipes;
COMMENT ON VIEW run_recipes IS 'The recipes of each run, with defaults of sources, as of its last save';
COMMENT ON COLUMN run_recipes.run IS 'The run';
COMMENT ON COLUMN run_recipes.source IS 'The source';
COMMENT ON COLUMN run_recipes.recipe IS 'Name of the recipe';
COMMENT ON COLUMN run_recipes.kind IS 'triplet or text';
COMMENT ON COLUMN run_recipes.weight IS 'Its weight among the recipes of the source';
COMMENT ON COLUMN run_recipes.definition IS 'Its fields, in the form of a recipes file';

-- Losses that a training loop reported, for people who watch a run and for rules that set weights.
CREATE TABLE losses (
    run VARCHAR NOT NULL,
    step BIGINT NOT NULL,
    source VARCHAR NOT NULL,
    loss DOUBLE NOT NULL
);
COMMENT ON TABLE losses IS 'Losses that were reported during runs, one a step and source; a save writes them';
COMMENT ON COLUMN losses.run IS 'The run';
COMMENT ON COLUMN losses.step IS 'Step of its batch';
COMMENT ON COLUMN losses.source IS 'Source of its samples';
COMMENT ON COLUMN losses.loss IS 'Last reported value for that step and source';

-- The samples of each step that were the hardest for a model, as reported by a training loop.
CREATE TABLE sample_losses (
    run VARCHAR NOT NULL,
    step BIGINT NOT NULL,
    position BIGINT NOT NULL,
    loss DOUBLE NOT NULL
);
COMMENT ON TABLE sample_losses IS 'The highest losses of samples that were reported during runs, at most 32 a step';
COMMENT ON COLUMN sample_losses.run IS 'The run';
COMMENT ON COLUMN sample_losses.step IS 'Step of the sample''s batch';
COMMENT ON COLUMN sample_losses.position IS 'The position of the sample; served has its ids';
COMMENT ON COLUMN sample_losses.loss IS 'Last reported value for that step';
