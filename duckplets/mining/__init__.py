"""From pools and indexes to hard negatives: guarded, scored, cut, stored and reported."""
