"""From recipes to pools: one statement decides which samples exist, and arrays hold what it found."""
