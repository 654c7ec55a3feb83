"""Read whole records by number, in any order: index samplers, data indexes, data sets."""
