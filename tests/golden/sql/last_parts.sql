-- counts of comparison
GROUP BY reason
ORDER BY reason;

-- anchors of comparison
SELECT record_key, chunk_key, text_hash, class, id_hash, added_version
FROM verdicts JOIN (SELECT record_key, id_hash, added_version FROM records) USING (record_key)
WHERE reason IS NULL
ORDER BY added_version, id_hash, record_key, chunk_key;

-- positives of comparison
SELECT record_key, chunk_key, text_hash
FROM positives
ORDER BY record_key, chunk_key;

-- negatives of comparison
SELECT record_key, chunk_key, text_hash, bin, id_hash, added_version
FROM negatives JOIN (SELECT record_key, id_hash, added_version FROM records) USING (record_key)
ORDER BY bin, added_version, id_hash, record_key, chunk_key;

-- pairs of comparison
SELECT class, bin
FROM pairs
ORDER BY class, bin;

-- sizes of comparison
SELECT
    (SELECT count(DISTINCT class) FROM anchors) AS classes,
    (SELECT count(DISTINCT bin) FROM negatives) AS bins;

-- anchors of mined
SELECT record_key, chunk_key, text_hash, class, section_key, normalised_hash, position, family,
    id_hash, added_version
FROM verdicts JOIN (SELECT record_key, id_hash, added_version FROM records) USING (record_key)
WHERE reason IS NULL
ORDER BY added_version, id_hash, record_key, chunk_key;

-- negatives of mined
SELECT record_key, chunk_key, text_hash, bin, section_key, family, id_hash, added_version
FROM negatives JOIN (SELECT record_key, id_hash, added_version FROM records) USING (record_key)
ORDER BY bin, added_version, id_hash, record_key, chunk_key;

-- illegal_texts of mined
SELECT FALSE AS known, own_texts.record_key::UBIGINT AS owner, own_texts.text_hash
FROM own_texts JOIN texts USING (text_hash)
JOIN (SELECT DISTINCT record_key, family FROM anchors) AS anchored USING (record_key)
WHERE texts.kin IS DISTINCT FROM anchored.family
UNION ALL SELECT TRUE AS known, question AS owner, text_hash
FROM known_texts;

-- mined_anchors of mined
SELECT DISTINCT record_key, section_key, class
FROM verdicts
WHERE reason IS NULL
ORDER BY section_key, class;

-- mined_askers of mined
SELECT DISTINCT record_key, section_key
FROM anchors
ORDER BY section_key;

-- mined_documents of mined
SELECT DISTINCT record_key, section_key, bin
FROM negatives
ORDER BY section_key, bin;

-- mined_positives of mined
SELECT DISTINCT record_key, section_key
FROM positives
ORDER BY record_key, section_key;

-- counts of texts
GROUP BY reason
ORDER BY reason;

-- anchors of texts
SELECT record_key, chunk_key, text_hash, id_hash, added_version
FROM anchors JOIN (SELECT record_key, id_hash, added_version FROM records) USING (record_key)
ORDER BY added_version, id_hash, record_key, chunk_key;
