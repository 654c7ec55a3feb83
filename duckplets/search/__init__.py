"""Full-text indexes: from sections to terms and counts, and from a text to what fits it best."""
