"""Look over the text that was taken in: what is of use, and what is there twice."""
