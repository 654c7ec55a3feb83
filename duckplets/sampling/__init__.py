"""From pools and positions to batches: streams, plans, fetched blocks, runs and their state."""
