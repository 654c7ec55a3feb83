"""Serve texts and pools as arrays: of a small corpus in memory, of a larger one in mapped files."""
