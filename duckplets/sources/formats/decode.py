"""Read text of any encoding as UTF-8, a block at a time."""

from __future__ import annotations

import codecs
import io
from typing import BinaryIO

from duckplets.base.sanitize import shown
from duckplets.errors import SourceError

_BLOCK = 1 << 20
# What stands in the place of bytes that are no text: as bytes it is no UTF-8, so the check of all
# text finds the row.
_LOST = "\ud800"


def _lost(error: UnicodeError) -> tuple[str, int]:
    return _LOST, error.end if isinstance(error, UnicodeDecodeError) else 0


codecs.register_error("duckplets.lost", _lost)


def codec_of(encoding: object) -> codecs.CodecInfo | None:
    """Return the codec of an encoding; None for UTF-8, which needs none.

    Raises:
        SourceError: Python knows no text encoding of that name.
    """
    if encoding is None:
        return None
    try:
        found = codecs.lookup(encoding) if isinstance(encoding, str) else None
    except (LookupError, ValueError):
        found = None
    if found is None or not found._is_text_encoding:
        raise SourceError(
            f"encoding={shown(repr(encoding))}: no text encoding that Python knows; give one such "
            f"as 'latin-1', 'cp1252', 'utf-16' or 'shift_jis'"
        )
    return None if found.name in ("utf-8", "utf-8-sig") else found


def codec_name(encoding: str | None) -> str:
    """Return the name of an encoding, for messages."""
    found = codec_of(encoding)
    return "UTF-8" if found is None else found.name


class Transcoded(io.BufferedIOBase):
    """A stream of bytes of an encoding, read as UTF-8; what is no text there is none here either.

    Args:
        stream: Read to its end, and closed with this one.
        encoding: Of its text.
    """

    def __init__(self, stream: BinaryIO, encoding: str) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder(encoding)("duckplets.lost")
        self._held = b""

    def read(self, size: int | None = -1) -> bytes:
        """Return the next bytes, ``size`` of them unless it is the end."""
        parts, have = [self._held], len(self._held)
        while size is None or size < 0 or have < size:
            block = self._stream.read(_BLOCK)
            text = self._decoder.decode(block, final=not block)
            data = text.encode("utf-8", "surrogatepass")
            parts.append(data)
            have += len(data)
            if not block:
                break
        whole = b"".join(parts)
        most = len(whole) if size is None or size < 0 else size
        self._held = whole[most:]
        return whole[:most]

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()
        super().close()
