-- Weights that are set during a run may come with a temperature.
ALTER TABLE weight_events ADD COLUMN temperature DOUBLE;
COMMENT ON COLUMN weight_events.temperature IS 'Temperature of the mixture from there on; NULL for the declared one';
