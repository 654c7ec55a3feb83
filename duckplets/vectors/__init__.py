"""Vectors of texts: sets of them in a file beside the corpus, by the hash of the text."""
