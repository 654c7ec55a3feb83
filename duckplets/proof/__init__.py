"""What a run drew, so that others can check it: certificates."""
