"""Open reports in Chromium, check that they write no messages, and make docs/images.

    python docs/screenshots.py [FOLDER]

Chromium is driven by its DevTools protocol through a pipe, so nothing but Debian's `chromium` is
needed. A page that writes to its console, uses a network or raises an error is refused.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import RawIOBase
from pathlib import Path
from typing import Any

import duckplets as dp

ROOT = Path(__file__).parent.parent
WORDNET = ROOT.parent / "shared" / "corpora" / "wordnet.parquet"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PATIENCE = 60  # seconds that the browser may take for an answer

# Name: page, light or dark, width, height, and the heading that is on top.
PICTURES = {
    "report-wordnet-light": ("wordnet", "light", 1200, 900, "Overview"),
    "report-wordnet-narrow": ("wordnet", "dark", 420, 900, "Samples of same_domain"),
    "report-run-dark": ("run", "dark", 1200, 900, "Mixture"),
    "report-mined-light": ("run", "light", 1200, 900, "Samples of hard"),
}


class Browser:
    """A headless Chromium that runs commands and records the events of pages."""

    def __init__(self, to: RawIOBase, come: RawIOBase) -> None:
        self._to, self._from = to, come
        self._number, self._rest, self._session = 0, b"", ""
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Run a command of the protocol, and return its result."""
        self._number += 1
        told: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            told["sessionId"] = self._session
        self._to.write(json.dumps(told).encode() + b"\0")
        while (answer := self._next()).get("id") != self._number:
            self.events.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return dict(answer["result"])

    def open(self, page: Path, *, scheme: str, width: int, height: int) -> None:
        """Open a page in a new tab and wait until it is there."""
        self._session, self.events = "", []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        self.media(scheme=scheme)
        self.call("Page.navigate", url=page.resolve().as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())

    def media(self, media: str = "screen", *, scheme: str = "light") -> None:
        """Show the page on a screen or on paper, light or dark."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.call("Emulation.setEmulatedMedia", media=media, features=[feature])

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression in the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                          awaitPromise=True)  # fmt: skip
        if "exceptionDetails" in found:
            raise RuntimeError(str(found["exceptionDetails"]))
        return found["result"].get("value")

    def picture(self) -> bytes:
        """Return the visible part of the page, as PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def told(self) -> list[str]:
        """Return the console messages, errors and requests of the page, except for its own file."""
        self.evaluate("0")  # earlier events arrive before the answer
        found = []
        for event in self.events:
            method, values = event.get("method"), event.get("params", {})
            if method in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
                found.append(f"{method}: {values}")
            url = values.get("request", {}).get("url", "")
            if method == "Network.requestWillBeSent" and not url.startswith(("file:", "data:")):
                found.append(f"request: {url}")
        files = {event["params"]["request"]["url"] for event in self.events
                 if event.get("method") == "Network.requestWillBeSent"
                 and event["params"]["request"]["url"].startswith("file:")}  # fmt: skip
        return [*found, *(f"files: {files}" for _ in range(len(files) > 1))]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            part = self._from.read(1 << 16)
            if not part:
                raise RuntimeError("the browser has ended")
            self._rest += part
        message, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(message))


# The browser takes its commands from file 3 and writes to file 4, whatever the pipes' numbers are.
_START = """
import fcntl, os, sys
pipes = [fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3]]
for place, pipe in enumerate(pipes, 3):
    os.dup2(pipe, place)
os.execv(sys.argv[3], sys.argv[3:])
"""


@contextmanager
def browser() -> Iterator[Browser]:
    """Start Chromium, and end it whatever happens."""
    down, up = os.pipe(), os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        options += ["--no-first-run", "--disable-extensions", "--disable-background-networking"]
        options += ["--disable-dev-shm-usage", "--remote-debugging-pipe", f"--user-data-dir={home}"]
        running = subprocess.Popen(
            [sys.executable, "-c", _START, str(down[0]), str(up[1]), str(CHROMIUM), *options],
            pass_fds=(down[0], up[1]),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(down[0])
        os.close(up[1])
        try:
            with os.fdopen(down[1], "wb", buffering=0) as to, os.fdopen(up[0], "rb", 0) as come:
                yield Browser(to, come)
        finally:
            os.killpg(running.pid, signal.SIGKILL)  # the processes of its pages, too
            running.wait(PATIENCE)


# -- the pages ----------------------------------------------------------------------------------


def run_page(folder: Path) -> Path:
    """Make the page of a corpus that is mixed, gated and mined, and of a run half-way."""
    path = folder / "library.duckdb"
    hardest = dp.Negatives(by="bm25", range_max=4)
    hard = dp.TripletRecipe(
        "hard",
        dp.role("anchor"),
        dp.role("context"),
        dp.role("context"),
        by=hardest,
    )
    easy = dp.TripletRecipe("easy", dp.role("anchor"), dp.role("context"), dp.role("context"))
    mixture = dp.Mixture(
        {"faq": 0.8, "manual": 0.2}, phases=[dp.Phase(30, {"faq": 0.3, "manual": 0.7})]
    )
    with dp.Corpus(path) as corpus:
        for name in ("faq", "manual"):
            source = dp.sources.CsvSource(
                ROOT / "examples" / "data" / f"{name}.csv", anchor="question", positive="answer"
            )
            gates = dp.Quality(language=None, min_words=12)
            corpus.ingest(source, name=name, quality=gates, progress=False)
        corpus.split(0.8, 0.1, 0.1, seed=42)
        corpus.add_recipe(hard)
        corpus.add_recipe(easy)
        corpus.mine(split="train", progress=False)
        with corpus.sampler(mixture=mixture, batch_size=8, steps=60) as sampler:
            for _ in range(40):
                next(sampler)
            sampler.save()
        corpus.report(folder / "run.html", run="default")
    return folder / "run.html"


def wordnet_page(folder: Path) -> Path:
    """Make the page of WordNet's titles and definitions."""
    recipe = dp.TripletRecipe(
        "same_domain",
        dp.role("anchor"),
        dp.role("context"),
        dp.role("context"),
        strategy=dp.sql("negative.meta['domain'] = anchor.meta['domain']"),
    )
    mapping = {"id": "id", "anchor": "title", "positive": "definition", "meta": ["domain"]}
    with dp.Corpus(folder / "wordnet.duckdb") as corpus:
        corpus.ingest(dp.sources.ParquetSource(WORDNET, **mapping), name="wordnet", progress=False)
        corpus.split(0.9, 0.05, 0.05, seed=42)
        corpus.add_recipe(recipe)
        corpus.report(folder / "wordnet.html")
    return folder / "wordnet.html"


def on_top(title: str) -> str:
    """Return the expression that scrolls the heading of a title to the top."""
    return (
        f"[...document.querySelectorAll('h2, h3')].find(h => h.textContent === {json.dumps(title)})"
        ".scrollIntoView()"
    )


def main(folder: Path) -> None:
    """Make the pictures of all pages that can be made."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made, browser() as chromium:
        pages = {"run": run_page(Path(made))}
        if WORDNET.exists():
            pages["wordnet"] = wordnet_page(Path(made))
        for name, (page, scheme, width, height, title) in PICTURES.items():
            if page not in pages:
                print(f"{name}: there is no {WORDNET}")
                continue
            chromium.open(pages[page], scheme=scheme, width=width, height=height)
            chromium.evaluate(on_top(title))
            picture = chromium.picture()
            if told := chromium.told():
                raise SystemExit(f"{name}: {told}")
            (folder / f"{name}.png").write_bytes(picture)
            print(f"{name}: {len(picture):,} bytes")


if __name__ == "__main__":
    if CHROMIUM is None:
        raise SystemExit("no chromium here: apt-get install chromium")
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images")
