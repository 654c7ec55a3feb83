-- Add a batch of external scores (Arrow external_rows: anchor_id or anchor_section_key, negative_id or
-- negative_section_key, score). Anchor and negative become a section key if one was given, else
-- the key of the record; NULL for what is not there.
-- Parameters: $version.
INSERT INTO external_scores
WITH live AS (
    SELECT records.record_key, records.record_id
    FROM records
    WHERE is_live(records.added_version, records.removed_version, $version)
),

live_sections AS (
    SELECT sections.section_key, sections.record_key
    FROM sections
    JOIN live ON live.record_key = sections.record_key
)

SELECT
    coalesce(anchors.record_key, anchor_sections.record_key),
    coalesce(anchors.record_key, anchor_sections.section_key),
    coalesce(negatives.record_key, negative_sections.record_key),
    coalesce(negatives.record_key, negative_sections.section_key),
    external_rows.score
FROM external_rows
LEFT JOIN live AS anchors ON anchors.record_id = external_rows.anchor_id
LEFT JOIN live_sections AS anchor_sections
    ON anchor_sections.section_key = external_rows.anchor_section_key
LEFT JOIN live AS negatives ON negatives.record_id = external_rows.negative_id
LEFT JOIN live_sections AS negative_sections
    ON negative_sections.section_key = external_rows.negative_section_key
