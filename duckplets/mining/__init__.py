"""Hard negatives: candidates are guarded, ranked and stored; policies choose among them."""
