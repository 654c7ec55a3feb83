"""Token shards: a tokenizer trained on a corpus, its texts as token ids in Parquet, by length."""
