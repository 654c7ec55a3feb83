-- First unused key of records, sections and chunks.
SELECT
    (SELECT coalesce(max(record_key), 0) + 1 FROM records) AS record,
    (SELECT coalesce(max(section_key), 0) + 1 FROM sections) AS section,
    (SELECT coalesce(max(chunk_key), 0) + 1 FROM chunks) AS chunk
