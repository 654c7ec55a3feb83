"""Full-text indexes: from sections to terms and counts, and from a query to the best sections."""
