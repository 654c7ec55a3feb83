-- name: triplets
-- The law of every triplet pool: anchors with a positive of another text, and with enough texts
-- for negatives. The recipe fills in names that end in _condition, _terms, _keys or _text.
-- Parameters: $split, $version, $source, $negatives (of a sample).
-- Rows: one an anchor, ordered by version and hash of the id.

-- Chunks of the selectors; own: all anchors and answers of the split, also without the conditions.
WITH anchors AS (FROM chunks_of($source, $split, $version) WHERE anchor_condition),
positives AS (FROM chunks_of($source, $split, $version) WHERE positive_condition),
negatives AS (FROM chunks_of(drawn, $split, $version) WHERE negative_condition),
own AS (
    SELECT *, unnest(writings) AS writing, asks_condition AS asks,
        answers_condition AND judged_condition AS answers
    FROM chunks_of(NULL, $split, $version) WHERE asks OR answers
),
-- Texts of negatives, sole: the only family with the text; and all writings of these texts.
texts AS (SELECT text_hash, only_one(family) AS sole FROM negatives GROUP BY ALL),
written AS (SELECT DISTINCT unnest(writings) AS writing, text_hash FROM negatives),
-- Texts that a family must not draw: its anchors and answers, and the texts that only it has.
own_texts AS (SELECT DISTINCT family, written.text_hash FROM own JOIN written USING (writing)),
excluded AS (FROM own_texts UNION SELECT sole, text_hash FROM texts WHERE sole IS NOT NULL),
-- Answers to a question that several families ask.
known AS (
    SELECT DISTINCT asked.question, written.text_hash FROM (
        SELECT question, unnest(list(DISTINCT record_key)) AS record_key FROM own
        WHERE asks AND source = $source GROUP BY question HAVING min(family) < max(family)
    ) AS asked JOIN own USING (record_key) JOIN written USING (writing) WHERE answers
),
-- The number of texts; the losses of each family and question; the overlap, where it matters.
counts AS (
    SELECT DISTINCT family, question, (SELECT count(*) FROM texts) AS texts,
        coalesce(e.number, 0) AS excluded, coalesce(k.number, 0) AS known FROM anchors
    LEFT JOIN (SELECT family, count(*) AS number FROM excluded GROUP BY ALL) AS e USING (family)
    LEFT JOIN (SELECT question, count(*) AS number FROM known GROUP BY ALL) AS k USING (question)
),
shared AS (
    SELECT law_keys, count(*) AS shared FROM (
        SELECT DISTINCT law_keys, text_hash FROM counts JOIN excluded AS e USING (family)
        WHERE $negatives BETWEEN texts - excluded - known + 1 AND texts - greatest(excluded, known)
    ) JOIN known USING (question, text_hash) GROUP BY ALL
),
-- Anchors with a positive of another text, and with enough texts for negatives.
positive_texts AS (SELECT record_key, only_one(text_hash) AS single FROM positives GROUP BY ALL),
eligible AS (
    FROM anchors JOIN positive_texts USING (positive_keys)
    JOIN counts USING (law_keys) LEFT JOIN shared USING (law_keys)
    WHERE other_text
    AND texts - excluded - known + coalesce(shared, 0) >= $negatives
)
SELECT record_key, record_id, list(chunk_key ORDER BY chunk_key) AS anchors,
    arg_min(text, chunk_key) AS anchor FROM eligible
GROUP BY unit_keys ORDER BY added_version, id_hash, last_keys

-- name: pairs
-- The last part for a recipe whose anchors are pairs.
-- Rows: one a pair, ordered by anchor, then by positive.
SELECT record_key, eligible.record_id,
    list(eligible.chunk_key ORDER BY eligible.chunk_key) AS anchors,
    arg_min(eligible.text, eligible.chunk_key) AS anchor,
    positives.chunk_key AS positive_key, any_value(positives.text) AS positive
FROM eligible JOIN positives USING (record_key)
WHERE taken_condition AND other_pair
GROUP BY record_key, eligible.record_id, eligible.added_version, eligible.id_hash,
    positives.chunk_key, positives.added_version, positives.id_hash
ORDER BY eligible.added_version, eligible.id_hash, record_key,
    positives.added_version, positives.id_hash, positive_key

-- name: texts
-- The steps of a text recipe: the chunks that its selectors take.
-- Parameters: $split, $version, $source.
WITH eligible AS (FROM chunks_of($source, $split, $version) WHERE anchor_condition),
anchors AS (FROM eligible),
judged AS (SELECT *, NULL::VARCHAR AS reason FROM eligible)
SELECT 1

-- name: text_pool
-- The last part for a text recipe.
-- Parameters: $split, $version, $source.
-- Rows: one an anchor, ordered by version and hash of the id.
SELECT record_key, record_id, list(chunk_key ORDER BY chunk_key) AS anchors,
    arg_min(text, chunk_key) AS anchor
FROM chunks_of($source, $split, $version) WHERE anchor_condition
GROUP BY unit_keys ORDER BY added_version, id_hash, last_keys

-- name: same_selectors
-- Steps for equal selectors of anchor and positive. Records of one equal text are one family
-- already, and a section that all records share must not empty the pool.
WITH known AS (SELECT question, text_hash FROM own WHERE FALSE)
SELECT 1

-- name: narrow
-- Steps for negatives of the anchors' source only, under the law of the split.
-- Parameters: $split, $version.
WITH written AS (
    SELECT DISTINCT unnest(writings) AS writing, text_hash
    FROM chunks_of(reach, $split, $version) JOIN texts USING (text_hash) WHERE negative_condition
)
SELECT 1

-- name: own_positives
-- Steps for a positive that is the anchor itself.
WITH positives AS (FROM anchors)
SELECT 1

-- name: by_class
-- Steps for a strategy with classes of anchors. A class may draw the texts of a part. If it starts
-- from part 0, all texts, the signs (-1, 1) remove and add some texts.
-- Parameters: $split, $version, $source, $negatives.

-- Chunks that the selectors take, with the values that the strategy compares.
WITH anchors AS (
    SELECT *, anchor_terms
    FROM chunks_of($source, $split, $version) WHERE anchor_condition
),
negatives AS (
    SELECT *, negative_terms
    FROM chunks_of(drawn, $split, $version) WHERE negative_condition
),
-- The texts of each part that a family or a question must not draw.
parts AS (SELECT DISTINCT class, family, question, unnest(parts_of_class) AS part FROM anchors),
lost AS (
    SELECT family, part, sign, text_hash FROM (
        FROM own_texts JOIN texts USING (text_hash) WHERE sole IS DISTINCT FROM family
    ) JOIN (SELECT DISTINCT family, part FROM parts) USING (family)
    JOIN suited USING (part, text_hash)
    UNION SELECT sole, part, sign, text_hash FROM suited WHERE sole IS NOT NULL
),
answered AS (SELECT question, part, sign, text_hash FROM known JOIN suited USING (text_hash)),
-- The number of texts; the losses of each family and question; the overlap, where it matters.
totals AS (SELECT part, sum(sign) AS number FROM suited GROUP BY ALL),
counts AS (
    SELECT class, family, question, sum(t.number) AS texts,
        coalesce(sum(e.number), 0) AS excluded, coalesce(sum(k.number), 0) AS known
    FROM parts JOIN totals AS t USING (part)
    LEFT JOIN (SELECT family, part, sum(sign) AS number FROM lost GROUP BY ALL) AS e
        USING (family, part)
    LEFT JOIN (SELECT question, part, sum(sign) AS number FROM answered GROUP BY ALL) AS k
        USING (question, part) GROUP BY ALL
),
shared AS (
    SELECT class, family, question, sum(sign) AS shared FROM (
        SELECT DISTINCT class, family, question, part, sign, text_hash
        FROM counts JOIN parts USING (class, family, question) JOIN lost USING (family, part)
        WHERE $negatives BETWEEN texts - excluded - known + 1 AND texts - greatest(excluded, known)
    ) JOIN answered USING (question, part, sign, text_hash) GROUP BY ALL
)
SELECT 1

-- name: allowed
-- Steps for classes that may draw from the bins of their pairs only.

-- The bins that suit each class of anchors, and their texts.
WITH class_bins AS (
    SELECT DISTINCT class, bin FROM (SELECT DISTINCT class, anchor_values FROM anchors) AS anchor
    JOIN (SELECT DISTINCT bin, negative_values FROM negatives) AS negative
        ON pair_condition
),
suited AS (
    SELECT class AS part, 1 AS sign, text_hash, only_one(family) AS sole
    FROM class_bins JOIN negatives USING (bin) GROUP BY ALL
)
SELECT 1

-- name: ample
-- Steps for classes that share bins. A class with more texts than any anchor can lose needs no
-- check of each text.
-- Parameters: $negatives.

-- Classes with enough texts, whatever their anchors lose; then the texts of each other class.
WITH ample AS (
    SELECT class AS part, sum(number) AS number FROM class_bins JOIN (
        SELECT bin, count(*) AS number
        FROM (SELECT text_hash, only_one(bin) AS bin FROM negatives GROUP BY ALL) GROUP BY ALL
    ) USING (bin) GROUP BY ALL HAVING sum(number) >= $negatives
        + (SELECT coalesce(max(n), 0) FROM (SELECT count(*) AS n FROM excluded GROUP BY family))
        + (SELECT coalesce(max(n), 0) FROM (SELECT count(*) AS n FROM known GROUP BY question))
),
suited AS (
    SELECT class AS part, 1 AS sign, text_hash, only_one(family) AS sole
    FROM class_bins JOIN negatives USING (bin)
    LEFT JOIN (SELECT part AS class, TRUE AS is_ample FROM ample) USING (class)
    WHERE is_ample IS NULL GROUP BY ALL
),
totals AS (FROM ample UNION ALL SELECT part, sum(sign) AS number FROM suited GROUP BY ALL)
SELECT 1

-- name: forbidden
-- Steps for classes that must not draw from the bins of their pairs.

-- The bins that a class must not draw from.
WITH class_bins AS (
    SELECT DISTINCT class, bin FROM (SELECT DISTINCT class, anchor_values FROM anchors) AS anchor
    JOIN (SELECT DISTINCT bin, negative_values FROM negatives) AS negative
        ON pair_condition
),
-- Texts with their families; then by class the families whose copies are all in forbidden bins.
texts AS (
    SELECT text_hash, only_one(family) AS sole, count(DISTINCT family) AS families,
        sum(DISTINCT family) AS total FROM negatives GROUP BY ALL
),
gone AS (
    SELECT class, text_hash, count(*) AS families, sum(family) AS total FROM (
        SELECT class, text_hash, family FROM class_bins JOIN (
            SELECT *, count(*) OVER (PARTITION BY text_hash, family) AS bins
            FROM (SELECT DISTINCT text_hash, family, bin FROM negatives)
        ) USING (bin) GROUP BY class, text_hash, family, bins HAVING count(*) = bins
    ) GROUP BY ALL
),
-- All texts (part 0), minus texts that lose families for a class, plus the remaining families.
suited AS (
    SELECT 0::UBIGINT AS part, 1 AS sign, text_hash, sole FROM texts
    UNION ALL SELECT class, -1, text_hash, sole FROM gone JOIN texts USING (text_hash)
    UNION ALL SELECT class, 1, text_hash,
        CASE texts.families - gone.families WHEN 1 THEN (texts.total - gone.total)::BIGINT END
    FROM gone JOIN texts USING (text_hash) WHERE texts.families > gone.families
)
SELECT 1

-- name: apart
-- Steps for classes that may draw every value except their own; negatives need a value.
-- Parameters: $split, $version.
WITH negatives AS (
    SELECT *, negative_terms
    FROM chunks_of(drawn, $split, $version) WHERE negative_condition AND n0 IS NOT NULL
)
SELECT 1

-- name: own_negatives
-- Steps for negatives that are checked one by one, because each record has few of its own.

-- Texts that each record may draw: neither excluded nor known.
WITH usable AS (
    SELECT asked.*, count(DISTINCT suited.text_hash) AS texts
    FROM (SELECT DISTINCT record_key, family, question FROM anchors) AS asked
    JOIN suited USING (record_key)
    LEFT JOIN (SELECT *, TRUE AS is_own FROM own_texts) AS o
        ON o.family = asked.family AND o.text_hash = suited.text_hash
    LEFT JOIN (SELECT *, TRUE AS is_known FROM known) AS k
        ON k.question = asked.question AND k.text_hash = suited.text_hash
    WHERE is_own IS NULL AND is_known IS NULL AND suited.family IS DISTINCT FROM asked.family
    GROUP BY ALL
),
counts AS (SELECT *, 0 AS excluded, 0 AS known FROM usable)
SELECT 1

-- name: same_record
-- Steps for negatives of the anchor's own record, which its family may draw.
WITH suited AS (SELECT DISTINCT record_key, text_hash, NULL AS family FROM negatives),
shared AS (SELECT law_keys, 0 AS shared FROM counts WHERE FALSE),
class_bins AS (SELECT DISTINCT record_key::UBIGINT AS class, class AS bin FROM anchors)
SELECT 1

-- name: filled
-- Steps for negatives of the own record, filled up with negatives of other families.

-- Negatives of the record that no other family has; then the number of all texts and usable ones.
WITH suited AS (
    SELECT DISTINCT record_key, text_hash, NULL AS family
    FROM negatives JOIN texts USING (text_hash) WHERE sole IS NOT NULL
),
counts AS (
    SELECT DISTINCT anchors.record_key, family, anchors.question,
        (SELECT count(*) FROM texts) + coalesce(usable.texts, 0) AS texts,
        coalesce(e.number, 0) AS excluded, coalesce(k.number, 0) AS known FROM anchors
    LEFT JOIN usable USING (record_key, family, question)
    LEFT JOIN (SELECT family, count(*) AS number FROM excluded GROUP BY ALL) AS e USING (family)
    LEFT JOIN (SELECT question, count(*) AS number FROM known GROUP BY ALL) AS k USING (question)
),
class_bins AS (SELECT DISTINCT record_key::UBIGINT AS class, class AS bin FROM anchors)
SELECT 1

-- name: nearest
-- Steps that find a near record for each anchor's record, in the same source or with the same
-- taxonomy[0]. Its date is nearest to the anchor's date plus some days.
-- Parameters: $split, $version.

-- The date that each record needs, within its source and within its category.
WITH wanted AS (
    SELECT DISTINCT record_key, (date + nearest_days)::DATE AS date,
        unnest(['source:' || source, 'taxonomy:' || taxonomy[1]]) AS part
    FROM chunks_of(reach, $split, $version) WHERE date IS NOT NULL AND anchor_condition
),
candidates AS (
    SELECT DISTINCT record_key, record_id, date,
        unnest(['source:' || source, 'taxonomy:' || taxonomy[1]]) AS part
    FROM chunks_of(candidates, $split, $version) WHERE date IS NOT NULL AND nearest_condition
),
-- Two records of each date, and two dates on each side, because a record is not its own nearest.
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
-- The nearest record; the smaller record id wins a tie.
nearest AS (
    SELECT record_key, other.key AS other_key FROM (
        SELECT record_key, abs(around.date - wanted_date) AS distance, unnest(others) AS other
        FROM around JOIN candidate_dates USING (part, date)
    ) WHERE other.key <> record_key
    QUALIFY row_number() OVER (PARTITION BY record_key ORDER BY distance, other.id) = 1
)
SELECT 1

-- name: near_negative
-- Steps for negatives of the record with the nearest date.

-- Negatives of the nearest record.
WITH suited AS (
    SELECT DISTINCT nearest.record_key, text_hash, family
    FROM nearest JOIN negatives ON other_key = negatives.record_key
),
shared AS (SELECT law_keys, 0 AS shared FROM counts WHERE FALSE),
class_bins AS (SELECT record_key::UBIGINT AS class, other_key::UBIGINT AS bin FROM nearest)
SELECT 1

-- name: near_positive
-- Steps for positives of the record with the nearest date.
-- Parameters: $split, $version.

-- Chunks of the nearest record, which count as answers of the anchor's own record.
WITH near_positives AS (
    SELECT nearest.record_key, other.* EXCLUDE (record_key)
    FROM nearest JOIN (
        SELECT * FROM chunks_of(candidates, $split, $version) WHERE nearest_condition
    ) AS other ON other_key = other.record_key
),
positives AS (FROM near_positives),
own AS (
    SELECT *, unnest(writings) AS writing, asks_condition AS asks, answers_condition AND judged_condition AS answers
    FROM chunks_of(NULL, $split, $version) WHERE asks OR answers
    UNION ALL BY NAME SELECT DISTINCT asked.*, near.question, near.text_hash,
        unnest(near.writings) AS writing, FALSE AS asks, TRUE AS answers
    FROM near_positives AS near JOIN (
        SELECT DISTINCT record_key, family, source
        FROM chunks_of(reach, $split, $version) WHERE anchor_condition
    ) AS asked USING (record_key)
)
SELECT 1

-- name: labels
-- Steps for labels of pairs of a text or document with an anchor.
-- Parameters: $split, $version, $source.

-- The label of each text for each anchor window; the label of a document covers all its windows.
WITH asking AS (
    SELECT DISTINCT record_key, family, question, source, text_hash AS anchor_hash,
        unnest([_internal.text_side(text_hash), id_hash]) AS anchor FROM own WHERE asks
),
documents AS (
    SELECT DISTINCT text_hash, unnest([_internal.text_side(text_hash), id_hash]) AS document
    FROM chunks_of(NULL, $split, $version)
),
said AS (
    SELECT record_key, family, question, source, anchor_hash, text_hash,
        _internal.newest_label(label, added_version) AS label, list(document) AS sides
    FROM asking JOIN labels USING (anchor) JOIN documents USING (document)
    WHERE added_version <= $version GROUP BY ALL HAVING label IS NOT NULL
),
-- Labels of all texts that share a writing with a labelled text.
labelled AS (
    SELECT DISTINCT said.family, said.question, said.source, said.label, written.text_hash
    FROM said JOIN (
        SELECT text_hash, unnest(writings) AS writing FROM chunks_of(NULL, $split, $version)
    ) USING (text_hash) JOIN written USING (writing)
),
-- Texts with a label of 0 or less: for all windows of a record with a question, or, if question is
-- NULL, for all windows of the record.
denied AS (
    SELECT of_texts.record_key, of_texts.question, text_hash FROM (
        SELECT record_key, question, text_hash, count(DISTINCT anchor_hash) AS denials
        FROM said WHERE label <= 0
        GROUP BY GROUPING SETS ((record_key, text_hash), (record_key, question, text_hash))
    ) AS of_texts JOIN (
        SELECT record_key, question, count(DISTINCT text_hash) AS windows FROM own WHERE asks
        GROUP BY GROUPING SETS ((record_key), (record_key, question))
    ) AS asked ON asked.record_key = of_texts.record_key
        AND asked.question IS NOT DISTINCT FROM of_texts.question AND windows = denials
),
-- Texts that a family must not draw: its anchors and answers, and positively labelled texts.
own_texts AS (
    SELECT family, written.text_hash FROM own JOIN written USING (writing)
    LEFT JOIN (SELECT *, TRUE AS is_denied FROM denied WHERE question IS NULL) AS d
        ON d.record_key = own.record_key AND d.text_hash = own.text_hash
    WHERE asks OR is_denied IS NULL
    UNION SELECT family, text_hash FROM labelled WHERE label > 0
),
-- Questions that several families ask, and answers to them.
repeated AS (
    SELECT question, list(DISTINCT record_key) AS record_keys FROM own
    WHERE asks AND source = $source GROUP BY question HAVING min(family) < max(family)
),
known AS (
    SELECT asked.question, written.text_hash
    FROM (SELECT question, unnest(record_keys) AS record_key FROM repeated) AS asked
    JOIN own USING (record_key) JOIN written USING (writing)
    LEFT JOIN (SELECT *, TRUE AS is_denied FROM denied) AS d
        ON d.record_key = asked.record_key AND d.question = asked.question
        AND d.text_hash = own.text_hash
    WHERE answers AND is_denied IS NULL
    UNION SELECT question, text_hash FROM labelled JOIN repeated USING (question)
    WHERE label > 0 AND source = $source
),
-- Texts with a positive label as positives of an anchor text, and one chunk of each.
promoted AS (
    SELECT * FROM (
        SELECT said.record_key AS asked_key, anchor_hash,
            NOT list_contains(sides, slot.id_hash) AS is_by_text,
            slot.* REPLACE (said.label AS label)
        FROM said JOIN chunks_of(promotable, $split, $version) AS slot USING (text_hash)
    ) WHERE promoted_condition
),
paired AS (
    SELECT anchors.record_key, anchors.text_hash AS anchor_hash, stated.text_hash
    FROM anchors JOIN stated USING (record_key)
    LEFT JOIN said ON said.record_key = anchors.record_key
        AND said.anchor_hash = anchors.text_hash AND said.text_hash = stated.text_hash
    WHERE said.label IS NULL
    UNION SELECT asked_key, anchor_hash, text_hash FROM promoted
),
positives AS (
    SELECT stated.* FROM stated
    JOIN (SELECT DISTINCT record_key, text_hash FROM paired) AS p USING (record_key, text_hash)
    UNION ALL BY NAME
    SELECT promoted.* EXCLUDE (asked_key, anchor_hash, is_by_text)
        REPLACE (asked_key AS record_key)
    FROM promoted
    LEFT JOIN (SELECT DISTINCT record_key, text_hash, TRUE AS is_own FROM stated) AS o
        ON o.record_key = asked_key AND o.text_hash = promoted.text_hash
    WHERE is_own IS NULL
    QUALIFY row_number() OVER (
        PARTITION BY asked_key, promoted.text_hash
        ORDER BY is_by_text, added_version, id_hash, chunk_key
    ) = 1
),
positive_texts AS (
    SELECT record_key, anchor_hash AS text_hash, only_one(paired.text_hash) AS single
    FROM paired GROUP BY record_key, anchor_hash
)
SELECT 1

-- name: documents
-- Steps for negatives from documents; a labelled text also excludes the texts of its group.
-- Parameters: $split, $version.

-- Labels of all texts that share a writing with a labelled text, or with a text of its group.
WITH labelled AS (
    SELECT DISTINCT said.family, said.question, said.label, written.text_hash
    FROM said JOIN (
        SELECT text_hash, unnest(writings) AS writing FROM chunks_of(NULL, $split, $version)
        UNION ALL SELECT one.text_hash, unnest(others.writings) AS writing FROM (
            SELECT DISTINCT text_hash, family FROM chunks_of(promotable, $split, $version)
            JOIN (SELECT DISTINCT text_hash FROM said) USING (text_hash) WHERE family < 0
        ) AS one JOIN chunks_of(promotable, $split, $version) AS others USING (family)
    ) USING (text_hash) JOIN written USING (writing)
),
-- Records with a label between 0 and 1, which is neither positive nor negative.
partial AS (SELECT record_key FROM said WHERE label > 0 AND label < 1)
SELECT 1

-- name: consistent
-- Steps for a consistency filter: pairs whose positive a scorer ranks high enough.
-- Parameters: $generation (of the mining), $within, $min_score.

-- Pairs of an anchor and a text; then the pairs that the scorer ranks high enough.
WITH offered_pairs AS (
    SELECT DISTINCT anchors.record_key, anchors.text_hash AS anchor_hash, offered.text_hash,
        anchors.section_key AS anchor_section_key, offered.section_key AS positive_section_key
    FROM anchors JOIN offered USING (record_key)
),
consistent AS (
    SELECT DISTINCT record_key, anchor_hash, text_hash
    FROM offered_pairs JOIN mined_positives USING (anchor_section_key, positive_section_key)
    WHERE generation = $generation AND rank <= $within AND score >= $min_score
),
positives AS (
    SELECT offered.* FROM offered
    JOIN (SELECT DISTINCT record_key, text_hash FROM consistent) USING (record_key, text_hash)
),
positive_texts AS (
    SELECT record_key, anchor_hash AS text_hash, only_one(consistent.text_hash) AS single
    FROM consistent GROUP BY record_key, anchor_hash
)
SELECT 1

-- name: consistent_pinned
-- The same for a run, whose mining may not be the newest.
-- Parameters: $ranked (files of the mining), $within, $min_score.
WITH consistent AS (
    SELECT DISTINCT record_key, anchor_hash, text_hash
    FROM offered_pairs JOIN read_parquet($ranked) USING (anchor_section_key, positive_section_key)
    WHERE rank <= $within AND score >= $min_score
)
SELECT 1

-- name: consistent_labelled
-- The same with labels of pairs: they determine the positives of an anchor.
WITH offered_pairs AS (
    SELECT DISTINCT anchors.record_key, anchors.text_hash AS anchor_hash, offered.text_hash,
        anchors.section_key AS anchor_section_key, offered.section_key AS positive_section_key
    FROM anchors JOIN paired
        ON paired.record_key = anchors.record_key AND anchor_hash = anchors.text_hash
    JOIN offered
        ON offered.record_key = anchors.record_key AND offered.text_hash = paired.text_hash
)
SELECT 1

-- name: given
-- Steps for labelled pairs: a sample is the pair with its label, and nothing is drawn.

-- Anchors with a label.
WITH eligible AS (
    FROM anchors JOIN positive_texts USING (positive_keys) WHERE label IS NOT NULL
)
SELECT 1

-- name: given_documents
-- The same with labels of documents.

-- The labelled documents of each record; the greatest label of its windows counts.
WITH positives AS (
    SELECT promoted.* EXCLUDE (asked_key, anchor_hash, is_by_text)
        REPLACE (asked_key AS record_key)
    FROM promoted
    QUALIFY row_number() OVER (
        PARTITION BY asked_key, promoted.text_hash
        ORDER BY label DESC, is_by_text, added_version, id_hash, chunk_key
    ) = 1
),
paired AS (SELECT DISTINCT asked_key AS record_key, anchor_hash, text_hash FROM promoted),
eligible AS (FROM anchors JOIN positive_texts USING (positive_keys))
SELECT 1

-- name: swapped
-- Steps for swapped samples, whose positive acts as the anchor.
-- Parameters: $source, $negatives.

-- Anchors of a positive that several families have.
WITH known_swapped AS (
    SELECT DISTINCT shared.question, written.text_hash FROM (
        SELECT question, unnest(list(DISTINCT record_key) FILTER (answers)) AS record_key FROM (
            SELECT question, record_key, family, answers FROM own
            WHERE answers AND source = $source
            UNION ALL SELECT positives.question, record_key, asked.family, FALSE FROM positives
            JOIN (SELECT DISTINCT record_key, family FROM anchors) AS asked USING (record_key)
        ) GROUP BY question HAVING min(family) < max(family)
    ) AS shared JOIN own USING (record_key) JOIN written USING (writing) WHERE asks
),
swapped_texts AS (
    SELECT record_key, max(number) AS number FROM positives
    JOIN (SELECT question, count(*) AS number FROM known_swapped GROUP BY ALL) USING (question)
    GROUP BY record_key
),
-- Anchors with a positive of another text, and with enough texts for negatives.
eligible AS (
    FROM anchors JOIN positive_texts USING (positive_keys)
    JOIN counts USING (law_keys) LEFT JOIN shared USING (law_keys)
    LEFT JOIN swapped_texts USING (record_key)
    WHERE other_text
    AND texts - excluded - known + coalesce(shared, 0) - coalesce(number, 0) >= $negatives
)
SELECT 1

-- name: reasons
-- Steps with the reason for each excluded anchor, and without classes to compare.

-- Anchors with the reason for their exclusion; NULL: in the pool.
WITH class_bins AS (SELECT 0::UBIGINT AS class, 0::UBIGINT AS bin WHERE FALSE),
partial AS (SELECT record_key FROM anchors WHERE FALSE),
judged AS (
    SELECT anchors.*, CASE
        WHEN is_eligible THEN NULL
        WHEN label_condition THEN label_text
        WHEN is_paired IS NULL AND has_offered THEN 'inconsistent'
        WHEN is_paired IS NULL THEN 'no positive'
        WHEN single = anchors.text_hash AND other_condition THEN same_text
        WHEN has_own AND own_condition THEN 'known answer'
        WHEN (SELECT only_one(family) FROM negatives) = anchors.family AND anchors.family < 0 THEN 'one family'
        ELSE 'no negative'
    END AS reason
    FROM anchors LEFT JOIN (SELECT *, TRUE AS is_paired FROM positive_texts) USING (positive_keys)
    LEFT JOIN (SELECT chunk_key, TRUE AS is_eligible FROM eligible) USING (chunk_key)
    LEFT JOIN (SELECT DISTINCT record_key, TRUE AS has_offered FROM offered) USING (record_key)
    LEFT JOIN (SELECT DISTINCT record_key, TRUE AS has_own FROM negatives) USING (record_key)
    LEFT JOIN (SELECT DISTINCT record_key, TRUE AS is_partial FROM partial) USING (record_key)
)
SELECT 1
