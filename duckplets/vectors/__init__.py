"""Vectors of texts: sets in a file next to the corpus, keyed by the hash of the text."""
