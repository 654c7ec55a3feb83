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

-- excluded of mined
-- Chunks that the selectors take; own: anchors and answers of the split, whatever conditions say.
WITH anchors AS (FROM chunks_of($source, $split, $version) WHERE role = 'anchor'),
negatives AS (FROM chunks_of($source, $split, $version) WHERE role = 'context'),
own AS (
    SELECT *, unnest(writings) AS writing, role = 'anchor' AS asks,
        role = 'context' AND coalesce(label > 0, TRUE) AS answers
    FROM chunks_of(NULL, $split, $version) WHERE asks OR answers
),
-- Texts of negatives with the family of those that only one has, and by what is written alike.
texts AS (SELECT text_hash, only_one(family) AS sole FROM negatives GROUP BY ALL),
written AS (SELECT DISTINCT unnest(writings) AS writing, text_hash FROM negatives),
-- Texts that a family may not draw: its anchors and answers, and the texts that only it has.
own_texts AS (SELECT DISTINCT family, written.text_hash FROM own JOIN written USING (writing))
SELECT family, text_hash
FROM own_texts
JOIN texts USING (text_hash)
JOIN (SELECT DISTINCT family FROM anchors) AS asked USING (family)
WHERE sole IS DISTINCT FROM family;

-- known of mined
SELECT question, text_hash
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
