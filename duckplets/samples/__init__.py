"""How a sample is drawn: streams, plans, negatives, fetched texts."""
