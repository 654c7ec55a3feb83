"""From stored prefixes to the lines before texts: resolved for records, drawn for samples.

    store ─definitions→ draws ─→ lines ─prefixing→ line + newline + text, in a window
                        values ──┘

What a user writes is in ``duckplets.text.prefix``.
"""
