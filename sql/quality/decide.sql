-- The places of rows (Arrow quality_rows: place, and the columns of a condition). The caller adds the
-- condition.
-- Rows: in any order.
SELECT slot.place
FROM quality_rows AS slot
