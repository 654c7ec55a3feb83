"""Convert instruction data to messages, by the built-in converters or the user's own.

    fields of a row ─NAME.sql→ said ─turns.sql→ turns ─conversation.sql→ prompt, reply, messages

A converter says which fields it reads; the rest is SQL over a table of rows. A user's function
takes the place of the first step, a row at a time, and its messages are checked as all others are.
"""

from duckplets.sources.converters.registry import converter_names, register_converter
from duckplets.sources.converters.turns import Function

__all__ = ["Function", "converter_names", "register_converter"]
