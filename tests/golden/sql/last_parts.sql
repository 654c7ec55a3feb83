-- counts of comparison
GROUP BY reason
ORDER BY reason;

-- left_out of comparison
SELECT record_key, chunk_key, reason, added_version, id_hash
FROM judged
WHERE reason IS NOT NULL
ORDER BY added_version, id_hash, record_key, chunk_key;

-- anchors of comparison
SELECT record_key, chunk_key, text_hash, family, question, section_key, position, class,
    added_version, id_hash
FROM eligible
ORDER BY added_version, id_hash, record_key, chunk_key;

-- positives of comparison
WITH positives AS (FROM chunks_of($source, $split, $version) WHERE role = 'context')
SELECT record_key, chunk_key, text_hash, added_version, id_hash
FROM positives
ORDER BY record_key, added_version, id_hash, chunk_key;

-- negatives of comparison
SELECT record_key, chunk_key, text_hash, family, section_key, bin, added_version, id_hash
FROM negatives
ORDER BY bin, added_version, id_hash, record_key, chunk_key;

-- pairs of comparison
SELECT class, bin
FROM class_bins
ORDER BY class, bin;

-- sizes of comparison
SELECT
    (SELECT count(DISTINCT class) FROM anchors) AS classes,
    (SELECT count(DISTINCT bin) FROM negatives) AS bins;

-- anchors of mined
SELECT record_key, chunk_key, text_hash, family, question, section_key, position,
    added_version, id_hash
FROM eligible
ORDER BY added_version, id_hash, record_key, chunk_key;

-- negatives of mined
WITH negatives AS (FROM chunks_of($source, $split, $version) WHERE role = 'context')
SELECT record_key, chunk_key, text_hash, family, section_key, added_version, id_hash
FROM negatives
ORDER BY added_version, id_hash, record_key, chunk_key;

-- illegal of mined
SELECT FALSE AS is_answer, family, 0::UBIGINT AS question, text_hash
FROM own_texts
JOIN texts USING (text_hash)
JOIN (SELECT DISTINCT family FROM anchors) AS asked USING (family)
WHERE sole IS DISTINCT FROM family
UNION ALL
SELECT TRUE AS is_answer, 0 AS family, question, text_hash
FROM known
JOIN (SELECT DISTINCT question FROM anchors) AS asked USING (question);

-- mined_anchors of mined
SELECT DISTINCT record_key, section_key, family, question, 0::UBIGINT AS class
FROM eligible
ORDER BY section_key, class;

-- mined_documents of mined
WITH negatives AS (FROM chunks_of($source, $split, $version) WHERE role = 'context')
SELECT DISTINCT record_key, section_key, 0::UBIGINT AS bin
FROM negatives
ORDER BY section_key, bin;

-- mined_positives of mined
WITH positives AS (FROM chunks_of($source, $split, $version) WHERE role = 'context')
SELECT DISTINCT record_key, section_key
FROM positives
ORDER BY record_key, section_key;

-- counts of texts
GROUP BY reason
ORDER BY reason;

-- anchors of texts
WITH eligible AS (FROM chunks_of($source, $split, $version) WHERE role <> 'rejected'
    AND (kind = 'window'))
SELECT record_key, chunk_key, text_hash, section_key, position, added_version, id_hash
FROM eligible
ORDER BY added_version, id_hash, record_key, chunk_key;
