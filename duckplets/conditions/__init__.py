"""Conditions that users write in SQL: parsed, allowed and bounded before they run."""
