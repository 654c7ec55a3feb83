"""Sources that users write themselves, over any kind of storage."""
