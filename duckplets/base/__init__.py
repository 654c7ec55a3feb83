"""Foundations of every room: argument checks, arrays, settings, prefetch, progress."""
