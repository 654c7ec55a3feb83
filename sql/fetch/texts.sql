-- The windows of requests (Arrow: request, chunk_key), with what sample weights are made of.
-- Parameters: $summary_weight, $weight_floor, $by_start (weigh by start_ratio, not by index).
-- Rows: by request.
SELECT
    CASE
        WHEN chunks.kind = 'window' AND chunks.token_count = sections.token_count
            THEN sections.text
        ELSE substring(sections.text, chunks.start + 1, chunks.length)
    END AS text,
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
    )::DOUBLE AS weight,
    chunks.section_key,
    CASE WHEN chunks.kind = 'window' THEN chunks.window_index ELSE -1 END AS window_index
FROM requests
JOIN chunks ON chunks.chunk_key = requests.chunk_key
JOIN sections ON sections.section_key = chunks.section_key
JOIN records ON records.record_key = chunks.record_key
ORDER BY requests.request
