-- What a fetch needs to know of every chunk, apart from its text. A length of -1 stands for the
-- whole section, which needs no cutting.
-- Parameters: $summary_weight, $weight_floor, $by_start (weigh by start_ratio, not by index).
-- Rows: by chunk_key, which counts on without gaps.
SELECT
    chunks.chunk_key,
    chunks.section_key,
    chunks.token_count AS tokens,
    chunks.start,
    CASE
        WHEN chunks.kind = 'window' AND chunks.token_count = sections.token_count THEN -1
        ELSE chunks.length
    END::INTEGER AS length,
    CASE WHEN chunks.kind = 'window' THEN chunks.window_index ELSE -1 END::INTEGER
        AS window_index,
    greatest(
        $weight_floor,
        least(
            1,
            records.trust * CASE
                WHEN chunks.kind = 'summary' THEN $summary_weight
                WHEN $by_start THEN 1 - chunks.start_token / sections.token_count
                ELSE 1 / (chunks.window_index + 1)
            END
        )
    )::DOUBLE AS weight
FROM chunks
JOIN sections ON sections.section_key = chunks.section_key
JOIN records ON records.record_key = chunks.record_key
ORDER BY chunks.chunk_key
