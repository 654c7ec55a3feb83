-- The parts of a triplet pool that find, for the record of each anchor, the other record of the
-- same source, or of the same taxonomy[0], whose date is nearest to the anchor's plus some days.
-- Parameters: $split, $version, $source.

-- The date that each record looks for, within its source and within its category.
WITH wanted AS (
    SELECT DISTINCT slot.record_key, (slot.date + nearest_days)::DATE AS date,
        unnest(['source:' || slot.source, 'taxonomy:' || slot.taxonomy[1]]) AS part
    FROM split_chunks($split, $version) AS slot
    WHERE slot.source = $source AND slot.date IS NOT NULL AND anchor_condition
),
candidates AS (
    SELECT DISTINCT slot.record_key, slot.record_id, slot.date,
        unnest(['source:' || slot.source, 'taxonomy:' || slot.taxonomy[1]]) AS part
    FROM split_chunks($split, $version) AS slot WHERE slot.date IS NOT NULL AND nearest_condition
),

-- Two records of each date, and two dates on either side: a record is never its own nearest.
candidate_dates AS (
    SELECT part, date, list({'id': record_id, 'key': record_key} ORDER BY record_id)[1:2] AS others,
        lag(date) OVER (PARTITION BY part ORDER BY date) AS previous_date,
        lead(date) OVER (PARTITION BY part ORDER BY date) AS next_date
    FROM candidates WHERE part IS NOT NULL GROUP BY part, date
),
around AS (
    SELECT wanted.record_key, wanted.part, wanted.date AS wanted_date,
        unnest([earlier.date, earlier.previous_date, later.date, later.next_date]) AS date
    FROM wanted
    ASOF LEFT JOIN candidate_dates AS earlier
        ON wanted.part = earlier.part AND wanted.date >= earlier.date
    ASOF LEFT JOIN candidate_dates AS later
        ON wanted.part = later.part AND wanted.date <= later.date
),

-- The nearest of them; of equally near ones the smaller record id.
nearest AS (
    SELECT record_key, other.key AS other_key FROM (
        SELECT record_key, abs(around.date - wanted_date) AS distance, unnest(others) AS other
        FROM around JOIN candidate_dates USING (part, date)
    ) WHERE other.key <> record_key
    QUALIFY row_number() OVER (PARTITION BY record_key ORDER BY distance, other.id) = 1
)
SELECT 1
