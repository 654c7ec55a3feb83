-- The rows (Arrow quality_rows: place, and what conditions are about) for which a condition on
-- them is true, which is added.
-- Rows: in any order.
SELECT slot.place
FROM quality_rows AS slot
