"""Serve texts and pools as arrays: in memory, or in mapped files for a large corpus."""
