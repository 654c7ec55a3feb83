-- Take the number of a new index.
SELECT nextval('text_index_keys')
