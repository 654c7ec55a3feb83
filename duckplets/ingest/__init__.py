"""From rows to what a corpus stores: records, sections, chunks, splits and prefixes."""
