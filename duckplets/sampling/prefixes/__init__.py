"""Prefixes at work: stored, resolved for records, drawn for samples, put before texts.

    store ─definitions→ draws ─→ lines ─prefixing→ line + newline + text, in a window
                        values ──┘

What a user writes is in ``duckplets.text.prefix``.
"""
