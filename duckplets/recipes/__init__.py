"""Recipes: how a sample is composed, as users write, check and store it."""
