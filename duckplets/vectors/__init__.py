"""Vectors of texts: sets in a file beside the corpus, keyed by the hash of the text."""
