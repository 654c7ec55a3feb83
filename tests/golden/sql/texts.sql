SELECT record_key, record_id, list(chunk_key ORDER BY chunk_key) AS anchors,
    arg_min(text, chunk_key) AS anchor
FROM chunks_of($source, $split, $version) WHERE role <> 'rejected' AND (kind = 'window')
GROUP BY record_key, record_id, added_version, id_hash, chunk_key
ORDER BY added_version, id_hash, record_key, anchors;
