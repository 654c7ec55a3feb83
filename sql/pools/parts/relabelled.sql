-- The part of a triplet pool where somebody said of pairs of texts whether they belong together.
-- Parameters: $split, $version, $source.

-- What was said of texts beside the anchors of a record.
WITH relabelled AS (
    SELECT record_key, said.text_hash,
        bool_and(verdict = 'positive') AS promoted, bool_and(verdict = 'negative') AS denied
    FROM anchors JOIN verdicts_at($version) AS said ON said.anchor_hash = anchors.text_hash
    GROUP BY record_key, said.text_hash
),

-- The record's own positives but for those that are none, and texts of the split that are some.
stated AS (
    SELECT record_key, chunk_key, text_hash, positive_columns FROM split_chunks($split, $version) AS slot
    WHERE slot.source = $source AND positive_condition
),
promoted_texts AS (
    SELECT record_key, text_hash FROM relabelled
    LEFT JOIN (SELECT DISTINCT record_key, text_hash, TRUE AS is_own FROM stated) AS own
        USING (record_key, text_hash)
    WHERE promoted AND is_own IS NULL
),
promoted_chunks AS (
    SELECT text_hash, min(chunk_key) AS chunk_key FROM split_chunks($split, $version) AS slot
    JOIN (SELECT DISTINCT text_hash FROM promoted_texts) AS wanted USING (text_hash)
    WHERE positive_condition GROUP BY text_hash
),
positives AS (
    SELECT stated.* FROM stated LEFT JOIN relabelled USING (record_key, text_hash)
    WHERE coalesce(promoted, TRUE)
    UNION ALL SELECT promoted_texts.record_key, slot.chunk_key, slot.text_hash, positive_columns
    FROM promoted_texts JOIN promoted_chunks USING (text_hash)
    JOIN split_chunks($split, $version) AS slot USING (chunk_key)
)
SELECT 1
