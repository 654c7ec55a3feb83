-- Note how far a mining is.
-- Parameters: $mining, $report.
UPDATE minings SET report = $report WHERE mining_key = $mining
