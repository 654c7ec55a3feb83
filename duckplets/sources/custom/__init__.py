"""Read sources that users write themselves, over any kind of storage, into rows and marks."""
