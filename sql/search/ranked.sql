-- The best sections for the terms of every index of a scope (Arrow wanted: index_key, terms).
-- Parameters: $k.
-- Rows: by score, the highest first, then record_id and position.
SELECT record_id, score, text, source, split, position AS section, role
FROM ranked_sections((SELECT list({'index_key': index_key, 'terms': terms}) FROM wanted), $k)
ORDER BY score DESC, record_id, position
