"""Turn rows into records, sections, chunks, splits and prefixes."""
