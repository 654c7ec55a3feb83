-- Finish a mining.
-- Parameters: $mining, $digest, $report.
UPDATE minings
SET finished_at = now()::TIMESTAMP, digest = $digest, report = $report
WHERE mining_key = $mining
