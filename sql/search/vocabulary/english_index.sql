-- The English stop words of the fts extension come with an index of any table.
PRAGMA create_fts_index('stop_words', 'word', 'word', stopwords = 'english')
