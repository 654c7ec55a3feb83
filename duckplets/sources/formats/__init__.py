"""Readers of file formats: each knows the rows of its files."""
