-- What the columns of views are. Whoever makes a view anew sets them again, for that erases them.
COMMENT ON COLUMN chunk_texts.record_id IS 'Id of the record';
COMMENT ON COLUMN chunk_texts.source IS 'Name of its source';
COMMENT ON COLUMN chunk_texts.split IS 'Its split; NULL before splits are set';
COMMENT ON COLUMN chunk_texts.position IS 'Position of the section within the record, from 0';
COMMENT ON COLUMN chunk_texts.role IS 'Role of the section: anchor, context or rejected';
COMMENT ON COLUMN chunk_texts.kind IS 'window or summary';
COMMENT ON COLUMN chunk_texts.window_index IS '0, 1, … among the windows of its overlap; 0 for a summary';
COMMENT ON COLUMN chunk_texts.overlap IS 'Tokens shared with the window before; 0 for a section of one window and for a summary';
COMMENT ON COLUMN chunk_texts.token_count IS 'Tokens of the chunk, as the chunking counts them';
COMMENT ON COLUMN chunk_texts.text IS 'Text of the chunk';

COMMENT ON COLUMN judgement_counts.source IS 'Name of the source';
COMMENT ON COLUMN judgement_counts.outcome IS 'accepted, filtered, rejected or unreadable';
COMMENT ON COLUMN judgement_counts.gate IS 'The first gate that they failed, or NULL';
COMMENT ON COLUMN judgement_counts.rule IS 'The rule of the gate, or why they were unreadable';
COMMENT ON COLUMN judgement_counts."rows" IS 'Rows that ended so';

COMMENT ON COLUMN leading_sections.section_key IS 'The section';
COMMENT ON COLUMN leading_sections.record_key IS 'Its record';

COMMENT ON COLUMN live_records.record_key IS 'As in records, and so are those that follow';
COMMENT ON COLUMN live_records.record_id IS 'source/key: the id column, else 16 hex digits of the SHA-256 of the content';
COMMENT ON COLUMN live_records.source_id IS 'The source it came from';
COMMENT ON COLUMN live_records.added_version IS 'Version that added it';
COMMENT ON COLUMN live_records.removed_version IS 'NULL: it is there';
COMMENT ON COLUMN live_records.date IS 'Date of the document, if it has one';
COMMENT ON COLUMN live_records.group_key IS 'Records of one group share a split';
COMMENT ON COLUMN live_records.taxonomy IS 'Categories, the broadest first';
COMMENT ON COLUMN live_records.meta IS 'Further columns, as text';
COMMENT ON COLUMN live_records.trust IS 'In [0,1]: its own, else that of its source';
COMMENT ON COLUMN live_records.content_hash IS 'First 64 bits of the SHA-256 of the content';
COMMENT ON COLUMN live_records.created_at IS 'Time given by the source, else of the ingest; UTC';
COMMENT ON COLUMN live_records.updated_at IS 'Time given by the source, else of the ingest; UTC';
COMMENT ON COLUMN live_records.label IS 'How the pair of its anchor and positive was judged: 1, 0 or a grade; NULL where nobody did';
COMMENT ON COLUMN live_records.source IS 'Name of its source';
COMMENT ON COLUMN live_records.split IS 'Its split; NULL before splits are set';

COMMENT ON COLUMN negative_texts.recipe IS 'The recipe they were mined for';
COMMENT ON COLUMN negative_texts.source IS 'Source of both';
COMMENT ON COLUMN negative_texts.split IS 'Split of both';
COMMENT ON COLUMN negative_texts.rank IS 'From 1, the hardest first';
COMMENT ON COLUMN negative_texts.score IS 'What it was ranked by; NULL for one that was drawn at random';
COMMENT ON COLUMN negative_texts.anchor_record_id IS 'Id of the record of the anchor';
COMMENT ON COLUMN negative_texts.anchor IS 'Text of the anchor';
COMMENT ON COLUMN negative_texts.negative_record_id IS 'Id of the record of the negative';
COMMENT ON COLUMN negative_texts.negative IS 'Text of the negative';

COMMENT ON COLUMN record_families.record_key IS 'The record';
COMMENT ON COLUMN record_families.family IS 'Least key of the records of its group and source, else its own';

COMMENT ON COLUMN rejected_texts.source IS 'Name of the source';
COMMENT ON COLUMN rejected_texts.file IS 'The file it stood in, or NULL';
COMMENT ON COLUMN rejected_texts."row" IS 'Its number in the source, from 1';
COMMENT ON COLUMN rejected_texts.gate IS 'The gate that rejected it';
COMMENT ON COLUMN rejected_texts.rule IS 'The rule of that gate';
COMMENT ON COLUMN rejected_texts.text IS 'Its sections but rejected replies, joined by a blank line';

COMMENT ON COLUMN section_hashes.section_key IS 'The section';
COMMENT ON COLUMN section_hashes.normalised_hash IS 'Lower 64 bits of the MD5 of its normalised text';

COMMENT ON COLUMN section_texts.record_id IS 'Id of the record';
COMMENT ON COLUMN section_texts.source IS 'Name of its source';
COMMENT ON COLUMN section_texts.split IS 'Its split; NULL before splits are set';
COMMENT ON COLUMN section_texts.position IS '0, 1, … within the record';
COMMENT ON COLUMN section_texts.role IS 'anchor, context, or rejected: the rejected reply of a preference pair';
COMMENT ON COLUMN section_texts.heading IS 'Name of the column it came from';
COMMENT ON COLUMN section_texts.text IS 'The text as it came, white space included, or as preprocessors left it';
COMMENT ON COLUMN section_texts.token_count IS 'Tokens, as the chunking counts them';

COMMENT ON COLUMN sections.section_key IS 'Dense integer, in the order of record and position';
COMMENT ON COLUMN sections.record_key IS 'The record it belongs to';
COMMENT ON COLUMN sections.position IS '0, 1, … within the record';
COMMENT ON COLUMN sections.role IS 'anchor, context, or rejected: the rejected reply of a preference pair';
COMMENT ON COLUMN sections.heading IS 'Name of the column it came from';
COMMENT ON COLUMN sections.text IS 'The text as it came, white space included, or as preprocessors left it';
COMMENT ON COLUMN sections.token_count IS 'Tokens, as the chunking counts them';

COMMENT ON COLUMN source_counts.source IS 'Name of the source';
COMMENT ON COLUMN source_counts.records IS 'Records of the newest version';
COMMENT ON COLUMN source_counts.sections IS 'Their sections';
COMMENT ON COLUMN source_counts.chunks IS 'Their chunks';
COMMENT ON COLUMN source_counts.tokens IS 'Tokens of their sections, as the chunking counts them';

COMMENT ON COLUMN split_counts.source IS 'Name of the source';
COMMENT ON COLUMN split_counts.split IS 'The split; NULL for records without one';
COMMENT ON COLUMN split_counts.records IS 'Records of the newest version';

COMMENT ON COLUMN unhashed_leading_sections.section_key IS 'The section';
