"""The page in a real browser: it is quiet, asks nobody, and what is text stays text."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from effort import THOROUGH
from report_corpora import HOSTILE, NAMES, told_corpus, train

from duckplets.base.sanitize import harmless

ROOT = Path(__file__).parents[2]


spec = spec_from_file_location("screenshots", ROOT / "docs" / "screenshots.py")
assert spec is not None
assert spec.loader is not None
screenshots = module_from_spec(spec)
spec.loader.exec_module(screenshots)
pytestmark = [
    pytest.mark.skipif(not THOROUGH, reason="a browser takes seconds to start"),
    pytest.mark.skipif(screenshots.CHROMIUM is None, reason="no chromium here"),
]

SHOWN = "items => items.filter(item => !item.hidden).length"


def test_a_hostile_page_is_quiet_and_its_script_works(tmp_path):
    page = tmp_path / "told.html"
    with told_corpus(tmp_path / "told.duckdb", 60) as corpus:
        train(corpus)
        corpus.report(page, run="default")
    with screenshots.browser() as browser:
        for scheme, width in (("light", 1400), ("dark", 360)):
            browser.open(page, scheme=scheme, width=width, height=900)
            assert browser.told() == []
            assert browser.evaluate("document.title") == "told.duckdb, version 2"
            assert browser.evaluate("document.querySelectorAll('b, img, iframe').length") == 0
            text = browser.evaluate("document.querySelector('main').textContent")
            for hostile in (*HOSTILE, *NAMES):
                assert harmless(hostile) in text
            wider = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            assert browser.evaluate(wider) <= 0
            tall = "Math.max(...[...document.querySelectorAll('.card')].map(c => c.offsetHeight))"
            assert browser.evaluate(tall) < 900
            scrolls = "items => items.filter(i => i.scrollWidth > i.clientWidth).length"
            assert browser.evaluate(f"({scrolls})([...document.querySelectorAll('.plot')])") == 0
            colour = browser.evaluate("getComputedStyle(document.body).backgroundColor")
            assert colour == {"light": "rgb(255, 255, 255)", "dark": "rgb(22, 24, 27)"}[scheme]
        # What tries to be a script later on is refused by the policy, which says so.
        browser.evaluate(
            "{ const s = document.createElement('script'); s.textContent = 'document.title = 1';"
            " document.body.append(s); const i = new Image(); i.src = 'https://example.org/x'; }"
        )
        assert browser.evaluate("document.title") == "told.duckdb, version 2"
        assert any("Content Security Policy" in line for line in browser.told())
        failed = [e["params"] for e in browser.events if e.get("method") == "Network.loadingFailed"]
        assert [event["blockedReason"] for event in failed] == ["csp"]


def test_searching_sorting_leafing_and_printing(tmp_path):
    page = tmp_path / "told.html"
    with told_corpus(tmp_path / "told.duckdb", 60) as corpus:
        corpus.report(page)
    with screenshots.browser() as browser:
        browser.open(page, scheme="light", width=1000, height=900)
        cards = "[...document.querySelector('#samples .cards').children]"
        shown = f"({SHOWN})({cards})"
        bar = "document.querySelector('#samples .leaf')"
        assert browser.evaluate(shown) == 5
        assert "1 to 5 of 100" in browser.evaluate(f"{bar}.textContent")
        browser.evaluate(f"[...{bar}.querySelectorAll('button')][1].click()")
        assert "6 to 10 of 100" in browser.evaluate(f"{bar}.textContent")
        word = browser.evaluate(f"{cards}[50].querySelector('h4').textContent.split(':')[0]")
        browser.evaluate(
            f"{{ const i = {bar}.querySelector('input'); i.value = '{word}:';"
            " i.dispatchEvent(new Event('input')); }"
        )
        assert browser.evaluate(shown) == 1
        head = "document.querySelector('#corpus [data-table=\"2\"] th:last-of-type')"
        column = "[...document.querySelectorAll('#corpus [data-table=\"2\"] td:last-child')]"
        for click in ("ascending", "descending"):
            browser.evaluate(f"{head}.querySelector('button').click()")
            assert browser.evaluate(f"{head}.getAttribute('aria-sort')") == click
            found = browser.evaluate(f"{column}.map(cell => Number(cell.dataset.n))")
            assert found == sorted(found, reverse=click == "descending")
        assert browser.evaluate("document.querySelectorAll('.made button').length") > 10
        browser.call("Page.printToPDF", printBackground=True)
        opened = "[...document.querySelectorAll('details:not(.made)')].every(d => d.open)"
        assert browser.evaluate(opened)
        assert browser.told() == []
        browser.call("Emulation.setScriptExecutionDisabled", value=True)
        browser.call("Page.reload")
        browser.call("Emulation.setScriptExecutionDisabled", value=False)


@pytest.mark.timeout(600)
def test_the_pictures_of_the_documents_can_be_made(tmp_path):
    screenshots.main(tmp_path)
    made = {file.name: file.stat().st_size for file in tmp_path.iterdir()}
    wanted = {f"{name}.png" for name in screenshots.PICTURES}
    if not screenshots.WORDNET.exists():
        wanted = {name for name in wanted if "wordnet" not in name}
    assert made.keys() == wanted
    assert all(10_000 < size < 300_000 for size in made.values())
    kept = {file.name for file in (ROOT / "docs" / "images").iterdir()}
    assert made.keys() <= kept
