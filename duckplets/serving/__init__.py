"""Serve texts and pools from files that are mapped into memory, made once for all processes."""
