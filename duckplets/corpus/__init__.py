"""The corpus file opened, with its verbs: what users meet first."""
