"""Recipes: how one sample is put together, as users write, check and store it."""
