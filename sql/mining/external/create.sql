-- Where external scores wait until all of them have been read.
CREATE OR REPLACE TEMP TABLE external_scores (
    anchor_record BIGINT,
    anchor BIGINT,
    negative_record BIGINT,
    negative BIGINT,
    score DOUBLE NOT NULL
)
