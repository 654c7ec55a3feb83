-- What a run had taken of every source when it was saved; weights are noted when they are set.
ALTER TABLE cursors ADD COLUMN counts JSON;
COMMENT ON COLUMN cursors.counts IS 'Taken up to there of each source, by name: [samples, tokens]';
DELETE FROM weight_events;
COMMENT ON TABLE weight_events IS 'Source weights that were set during runs; those of the start are in runs.settings';
COMMENT ON COLUMN weight_events.step IS 'First step they are in force';
COMMENT ON COLUMN weight_events.weights IS 'The weights given, by name; they override the declared ones';
