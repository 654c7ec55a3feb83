duckplets decontaminate mixed.duckdb exam.csv --text question --ngram 3 --action remove
