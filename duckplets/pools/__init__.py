"""From recipes to pools: a statement decides which samples exist, arrays hold its rows."""
