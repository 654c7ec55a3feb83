"""Arithmetic on positions, without I/O: permutations, exact shares, schedules and ranks."""
