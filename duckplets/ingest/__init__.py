"""From rows to what a corpus keeps: records, sections, chunks, splits and prefixes."""
