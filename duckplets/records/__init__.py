"""Whole records by number, in any order: index samplers, data indexes and data sets."""
