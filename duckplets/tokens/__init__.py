"""Token shards: a trained tokenizer, and the texts of a corpus as token ids in Parquet."""
