"""The open corpus with its verbs: what users meet first."""
