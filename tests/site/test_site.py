"""The documentation site: built without a warning, it asks nobody for anything and speaks of the product as it is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, expect

from handbook import command_line, pictures, rest
from handbook.hooks import PAGES_OF_FILES, made_pages
from tests.documents import PAGES_OF_NOTEBOOKS, ROOT, arguments, check_options, pages


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, as `make docs` builds it: every page is in the nav, every link and anchor leads somewhere."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


class _Read(HTMLParser):
    """What a page loads, what its text says outside of code, and what its pictures are called."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.unnamed = 0
        self.words: list[str] = []
        self._code = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("script", "img", "iframe", "source", "video", "audio", "embed"):
            self.loaded.append(given.get("src") or "")
        if tag == "link":
            self.loaded.append(given.get("href") or "")
        if (tag == "img" and not given.get("alt")) or (given.get("role") == "img" and not given.get("aria-label")):
            self.unnamed += 1
        self._code += tag in ("code", "pre", "script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._code -= tag in ("code", "pre", "script", "style")

    def handle_data(self, data: str) -> None:
        if not self._code:
            self.words.append(data)


def _read(site: Path) -> Iterator[tuple[Path, _Read]]:
    for path in sorted(site.rglob("*.html")):
        yield path, _Read(path.read_text("utf-8"))


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    for path, page in _read(site):
        assert not [address for address in page.loaded if urlsplit(address).scheme or urlsplit(address).netloc], path
    for path in site.rglob("*.css"):
        assert not re.findall(r"(?:@import|url\()\s*['\"]?(?:https?:)?//", path.read_text("utf-8")), path


def test_no_page_shows_markup_and_every_picture_has_a_name(site: Path) -> None:
    """Lists, tables and fences that GitHub reads and the site's Markdown does not."""
    for path, page in _read(site):
        text = " ".join(page.words)
        assert not re.findall(r"```|\|-+\||^\s*\| |\]\(\w|^- ", text, re.MULTILINE), path
        assert page.unnamed == 0, path


def test_every_page_is_on_the_site(site: Path) -> None:
    rendered = [str(path.relative_to(ROOT)) for path in PAGES_OF_NOTEBOOKS]
    of_docs = [name.removeprefix("docs/") for name in (*pages(), *rendered) if name.startswith("docs/")]
    for name in (*of_docs, *made_pages(), *PAGES_OF_FILES.values()):
        address = re.sub(r"(^|/)README\.md$", r"\1index.md", name).removesuffix(".md") + ".html"
        assert (site / address).is_file(), name


def test_the_reference_has_every_operation_and_every_command(site: Path) -> None:
    operations = [one for methods in rest.document()["paths"].values() for one in methods.values()]
    shown = "".join(path.read_text("utf-8") for path in (site / "reference" / "rest").glob("*.html"))
    ids = set(re.findall(r'<h2 id="([^"]+)"', shown))
    assert {re.sub(r"[^a-z0-9]+", "-", one["operationId"].lower()).strip("-") for one in operations} <= ids
    assert len(operations) > 150


def test_examples_of_the_command_line_are_commands_that_there_are() -> None:
    text = command_line.page()
    examples = re.findall(r"^Example: `(.+)`$", text, re.MULTILINE)
    for example in examples:
        words = arguments(example)
        if words and "|" not in example:
            check_options(words)
    assert len(examples) > 15
    assert "## bindery topology rollback" in text


def test_made_pages_have_no_blocks_that_no_test_runs() -> None:
    """Their commands are those of the README, and of CONTRIBUTING, which `tests/pages` runs."""
    from_files = {*PAGES_OF_FILES.values()}
    assert not [name for name, text in made_pages().items() if "```" in text and name not in from_files]


def test_pictures_are_those_that_are_drawn_now() -> None:
    drawn = pictures.pictures()
    for name, text in drawn.items():
        assert (pictures.FOLDER / f"{name}.svg").read_text("utf-8") == text, "run: python -m handbook.pictures"
    assert {path.stem for path in pictures.FOLDER.glob("*.svg")} == set(drawn)
    shown = set(re.findall(r"pictures/([\w-]+)\.svg", "".join((ROOT / name).read_text("utf-8") for name in pages())))
    assert shown == set(drawn)


def test_pages_are_read_and_searched_without_a_server(site: Path, chromium: Browser) -> None:
    asked, said = [], []
    page = chromium.new_page(viewport={"width": 1280, "height": 900}, color_scheme="dark")
    page.on("request", lambda sent: asked.append(sent.url))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("console", lambda one: said.append(one.text) if one.type == "error" else None)
    page.goto((site / "index.html").as_uri())
    expect(page.locator("body")).to_have_attribute("data-md-color-scheme", "slate")
    page.get_by_placeholder("Search").press_sequentially("redrive")  # it listens to keys
    found = page.locator(".md-search-result__link").first
    expect(found).to_be_visible()
    found.click()
    expect(page.locator("h1")).to_contain_text("unroutable")
    page.goto((site / "concepts" / "exchanges.html").as_uri())
    expect(page.get_by_role("img", name="A message with the key card")).to_be_visible()
    session = page.locator("code:has(.gp)").first
    session.evaluate("code => code.setAttribute('data-md-copying', '')")
    copied = [line for line in session.inner_text().splitlines() if line.strip()]
    assert copied == [
        "bindery apply direct.yaml --data payments",
        "bindery explain --message card.json --data payments",
    ]
    page.close()
    assert {urlsplit(address).scheme for address in asked} <= {"file", "about", "blob"}
    assert said == []
