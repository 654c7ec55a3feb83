"""What a notebook shows is tables or lines in which everything is escaped, and nothing acts."""

from __future__ import annotations

import re
from html.parser import HTMLParser

HOSTILE = '<script>alert(1)</script>\x1b[2J\u202e & "quoted"'


class Tags(HTMLParser):
    """The tags of a document, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[object] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)
        self.attributes += [attrs] if attrs else []

    def handle_data(self, data: str) -> None:
        self.text += f"{data} "


def check_html(html: str, *texts: str) -> None:
    """Check that nothing in a document acts, and that it has some texts."""
    seen = Tags(html)
    assert seen.tags <= {"pre", "table", "caption", "thead", "tbody", "tr", "th", "td"}
    assert not seen.attributes
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", html)
    for text in texts:
        assert text in seen.text
