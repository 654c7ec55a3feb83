"""Prefixes at work: stored, resolved for records, drawn for samples, put before texts.

    store ─catalog→ definitions as arrays ─draws→ lines ─fit→ line + newline + text
                          values ─────────┘              (prefixing)

What a user writes is in ``duckplets.text.prefix``.
"""
