-- name: minings
-- A view of the minings in the manifests. A view takes no parameters, so duckplets/mining/views.py
-- writes the values into the text, here and below.
-- Parameters: $minings (JSON).
CREATE OR REPLACE VIEW minings AS
SELECT
    mining."key" AS generation, mining.recipe, mining.source, mining.split, mining.scorer,
    mining.anchors, mining.candidates, mining.searched, mining.corpus_version, mining.definition,
    mining.settings, mining.counts, mining.finished_at, mining.files, mining.positive_files
FROM (
    SELECT unnest(from_json($minings, '[{
        "key": "INTEGER", "recipe": "VARCHAR", "source": "VARCHAR", "split": "VARCHAR",
        "scorer": "VARCHAR", "anchors": "BIGINT", "candidates": "BIGINT", "searched": "BIGINT",
        "corpus_version": "BIGINT", "definition": "JSON", "settings": "JSON",
        "counts": "MAP(VARCHAR, BIGINT)", "finished_at": "TIMESTAMP", "files": ["VARCHAR"],
        "positive_files": ["VARCHAR"]
    }]')) AS mining
)

-- name: candidates
-- A view of all candidates of these minings.
-- Parameters: $folder, $parts (JSON).
CREATE OR REPLACE VIEW candidates AS
SELECT
    of_files.recipe, of_files.source, of_files.split, of_files.scorer, of_files.generation,
    found.anchor_section_key, found.rank, found.negative_section_key, found.score,
    found.positive_score, found.positive_rank
FROM read_parquet(
    list_transform(
        from_json($parts, '["VARCHAR"]'),
        LAMBDA part : _internal.beside_corpus($folder || part)
    ),
    filename = TRUE, hive_partitioning = FALSE
) AS found
JOIN (
    SELECT recipe, source, split, scorer, generation, unnest(files) AS part
    FROM minings
) AS of_files ON of_files.part = parse_filename(found.filename)
WHERE found.rank > 0

-- name: mined_positives
-- A view of every positive of the anchors of these minings.
-- Parameters: $folder, $positives (JSON).
CREATE OR REPLACE VIEW mined_positives AS
SELECT
    of_files.recipe, of_files.source, of_files.split, of_files.scorer, of_files.generation,
    found.anchor_section_key, found.positive_section_key, found.score, found.rank
FROM read_parquet(
    list_transform(
        from_json($positives, '["VARCHAR"]'),
        LAMBDA part : _internal.beside_corpus($folder || part)
    ),
    filename = TRUE, hive_partitioning = FALSE
) AS found
JOIN (
    SELECT recipe, source, split, scorer, generation, unnest(positive_files) AS part
    FROM minings
) AS of_files ON of_files.part = parse_filename(found.filename)

-- name: no_positives
-- The same view without minings.
CREATE OR REPLACE VIEW mined_positives AS
SELECT
    '' AS recipe, '' AS source, '' AS split, '' AS scorer, 0 AS generation,
    0::BIGINT AS anchor_section_key, 0::BIGINT AS positive_section_key, 0::DOUBLE AS score, 0 AS rank
WHERE FALSE

-- name: no_candidates
-- The same view without minings.
CREATE OR REPLACE VIEW candidates AS
SELECT
    '' AS recipe, '' AS source, '' AS split, '' AS scorer, 0 AS generation,
    0::BIGINT AS anchor_section_key, 0 AS rank, 0::BIGINT AS negative_section_key,
    0::DOUBLE AS score, 0::DOUBLE AS positive_score, 0 AS positive_rank
WHERE FALSE

-- name: is_any_shown
-- Whether the view of minings has rows.
SELECT count(*) > 0
FROM minings

-- name: shown
-- Whether the stored views have this digest in a comment.
-- Parameters: $digest.
SELECT count(*) > 0
FROM duckdb_views()
WHERE view_name = 'candidates' AND database_name = current_database() AND comment LIKE '%' || $digest || '%'

-- name: known_by
-- Comment the views.
-- Parameters: $digest (the comment that identifies the views).
COMMENT ON VIEW minings IS 'Mined candidates in use: the newest mining of each recipe, source, split and scorer';

COMMENT ON VIEW mined_positives IS 'Every positive of mined anchors, with its score and rank';

COMMENT ON VIEW candidates IS $digest

-- name: columns
-- The comments of the views' columns, which are set again after the views are replaced.
SELECT table_name, column_name, comment
FROM duckdb_columns()
WHERE
    table_name IN ('minings', 'candidates', 'mined_positives') AND database_name = current_database()
    AND comment IS NOT NULL

-- name: column
-- Comment a column; the caller replaces minings.generation by its name.
-- Parameters: $comment.
COMMENT ON COLUMN minings.generation IS $comment

-- name: covered
-- The number of anchor sections (Arrow wanted: section_key) that a mining searched.
-- Parameters: $files.
SELECT count(DISTINCT anchor_section_key)
FROM read_parquet($files)
WHERE anchor_section_key IN (SELECT section_key FROM wanted)

-- name: looked_at
-- The anchor sections that a mining searched.
-- Parameters: $files.
-- Rows: ascending.
SELECT DISTINCT anchor_section_key
FROM read_parquet($files)
ORDER BY anchor_section_key

-- name: left
-- The candidates in some files that pass a policy.
-- Parameters: $files, $absolute_margin, $relative_margin, $min_score, $max_score (NULL: no cut),
-- $most (the last rank to read; NULL for all).
-- Rows: by anchor and rank, as they were stored.
SELECT anchor_section_key, rank, negative_section_key, score, positive_score
FROM read_parquet($files)
WHERE
    rank BETWEEN 1 AND coalesce($most, rank)
    AND cut_by(
        score, positive_score,
        $absolute_margin, $relative_margin, $min_score, $max_score
    ) IS NULL

-- name: outcomes
-- Count the candidates and anchors of a mining by their outcome under a policy.
-- Parameters: $files, $absolute_margin, $relative_margin, $min_score, $max_score, $range_min,
-- $range_max, $version (of the labels of pairs).
-- Rows: one.
WITH anchors AS (
    SELECT
        anchor_section_key,
        count(*) FILTER (rank > 0 AND cut IS NULL) AS survivors,
        count(*) FILTER (cut = 'relabelled') AS relabelled,
        count(*) FILTER (cut = 'absolute_margin') AS absolute_margin,
        count(*) FILTER (cut = 'relative_margin') AS relative_margin,
        count(*) FILTER (cut = 'max_score') AS max_score,
        count(*) FILTER (cut = 'min_score') AS min_score
    FROM (
        SELECT
            found.anchor_section_key, rank,
            CASE WHEN relabelled.negative_section_key IS NOT NULL THEN 'relabelled'
                WHEN rank > 0 THEN cut_by(
                    score, positive_score,
                    $absolute_margin, $relative_margin, $min_score, $max_score
                ) END AS cut
        FROM read_parquet($files) AS found
        LEFT JOIN (
            SELECT DISTINCT anchor_section_key, negative_section_key
            FROM labelled_pairs($version) WHERE label > 0
        ) AS relabelled
            ON relabelled.anchor_section_key = found.anchor_section_key
            AND relabelled.negative_section_key = found.negative_section_key
    )
    GROUP BY anchor_section_key
),

kept AS (
    SELECT *, greatest(least(survivors, $range_max) - $range_min, 0) AS kept
    FROM anchors
)

SELECT
    count(*) FILTER (kept = $range_max - $range_min) AS "full",
    count(*) FILTER (kept BETWEEN 1 AND $range_max - $range_min - 1) AS short,
    count(*) FILTER (kept = 0) AS "none",
    sum(relabelled) AS relabelled,
    sum(absolute_margin) AS absolute_margin,
    sum(relative_margin) AS relative_margin,
    sum(max_score) AS max_score,
    sum(min_score) AS min_score,
    sum(survivors - kept) AS "range",
    sum(kept) AS kept
FROM kept

-- name: quantiles
-- Quantiles (0, 5, 25, 50, 75, 95, 100 %) of a mining's scores and of the positives' ranks.
-- Parameters: $files, $every (use one anchor in $every).
-- Rows: one.
SELECT
    quantile_disc(score, [0, 0.05, 0.25, 0.5, 0.75, 0.95, 1]) FILTER (rank > 0)
        AS negative_score,
    quantile_disc(positive_score, [0, 0.05, 0.25, 0.5, 0.75, 0.95, 1]) FILTER (rank <= 1)
        AS positive_score,
    quantile_disc(positive_rank, [0, 0.05, 0.25, 0.5, 0.75, 0.95, 1]) FILTER (rank <= 1)
        AS positive_rank,
    count(*) FILTER (rank <= 1 AND positive_rank IS NULL) AS unranked
FROM read_parquet($files)
WHERE anchor_section_key % $every = 0

-- name: within
-- The number of positives, and the number within some ranks.
-- Parameters: $files (of positives).
-- Rows: one.
SELECT
    count(*) AS positives,
    count(*) FILTER (rank = 1) AS within_1,
    count(*) FILTER (rank <= 5) AS within_5,
    count(*) FILTER (rank <= 20) AS within_20,
    count(*) FILTER (rank <= 100) AS within_100
FROM read_parquet($files)

-- name: found
-- Recall and reciprocal rank: the mean share of an anchor's positives within some ranks, and the
-- mean of 1 / best rank.
-- Parameters: $files (of positives).
-- Rows: one; NULL if none is ranked.
SELECT
    CASE WHEN sum(ranked) > 0 THEN round(avg(in_10), 6) END AS "recall@10",
    CASE WHEN sum(ranked) > 0 THEN round(avg(in_100), 6) END AS "recall@100",
    CASE WHEN sum(ranked) > 0
        THEN round(avg(CASE WHEN best <= 10 THEN 1 / best ELSE 0 END), 6) END AS "mrr@10"
FROM (
    SELECT
        count(rank) AS ranked, min(rank) AS best,
        count(*) FILTER (rank <= 10) / count(*) AS in_10,
        count(*) FILTER (rank <= 100) / count(*) AS in_100
    FROM read_parquet($files)
    GROUP BY anchor_section_key
)

-- name: why
-- The candidates of anchors with a record id or text, and the reason why a policy cuts each.
-- Parameters: $files, $anchor, $absolute_margin, $relative_margin, $min_score, $max_score, $version.
-- Rows: by anchor and rank.
SELECT
    anchor_records.record_id AS anchor, found.rank, negative_records.record_id AS negative,
    found.score, found.positive_score, found.positive_rank,
    CASE WHEN relabelled.negative_section_key IS NOT NULL THEN 'relabelled'
        ELSE cut_by(
            found.score, found.positive_score,
            $absolute_margin, $relative_margin, $min_score, $max_score
        ) END AS cut,
    texts.text
FROM read_parquet($files) AS found
JOIN stored_sections AS anchors ON anchors.section_key = found.anchor_section_key
JOIN records AS anchor_records ON anchor_records.record_key = anchors.record_key
JOIN sections AS texts ON texts.section_key = found.negative_section_key
JOIN records AS negative_records ON negative_records.record_key = texts.record_key
LEFT JOIN (
    SELECT DISTINCT anchor_section_key, negative_section_key
    FROM labelled_pairs($version) WHERE label > 0
) AS relabelled
    ON relabelled.anchor_section_key = found.anchor_section_key
    AND relabelled.negative_section_key = found.negative_section_key
WHERE
    found.rank > 0
    AND found.anchor_section_key IN (
        SELECT sections.section_key
        FROM sections
        JOIN records ON records.record_key = sections.record_key
        WHERE records.record_id = $anchor OR sections.text = $anchor
    )
ORDER BY found.anchor_section_key, found.rank
