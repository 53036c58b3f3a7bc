"""What mkdocs does besides rendering `docs`: pages made from the product, and links and pictures as a site has them.

`mkdocs.yml` names this module; mkdocs calls `on_config`, `on_files`, `on_page_markdown` and `on_page_content`.
"""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # mkdocs reads this file by its path, and it describes the product beside it

from handbook import command_line, rest, settings  # noqa: E402  # found by the line above
from handbook.drawing import style_of_site  # noqa: E402

#: Where the nav says this, the pages of the REST reference stand.
REST: Final = "reference/rest/"
#: Files at the top of the repository -> the pages that they are on the site.
PAGES_OF_FILES: Final = {
    "README.md": "quick-start.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
_COPIED: Final = ("CONTRIBUTING.md", "CHANGELOG.md")
_MADE: Final[Mapping[str, Callable[[], str]]] = {
    "reference/command-line.md": command_line.page,
    "reference/settings.md": settings.page,
}
_FENCE_OF_FILE: Final = re.compile(r"^( *)```([\w-]+) (\S+)$", re.MULTILINE)
_LINK: Final = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#]+)(#[^)\s]*)?\)")
_RESULT: Final = re.compile(r"<td>(true|false|unknown|refused)</td>")
_PICTURE: Final = re.compile(r'<p><img alt="([^"]*)" src="[^"]*pictures/([\w-]+)\.svg" ?/?></p>')


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages of the REST reference into the nav, a page for each tag."""
    pages = [{title: f"{REST}{name}.md"} for name, title in rest.titles().items()]
    config.nav = _with_rest(config.nav, pages)
    return config


def _with_rest(nav: object, pages: list[dict[str, str]]) -> object:
    match nav:
        case list():
            return [_with_rest(entry, pages) for entry in nav]
        case dict():
            return {title: pages if entry == REST else _with_rest(entry, pages) for title, entry in nav.items()}
    return nav


def made_pages() -> dict[str, str]:
    """Address -> Markdown of every page that is made when the site is built."""
    made = {address: page() for address, page in _MADE.items()}
    made |= {f"{REST}{name}.md": text for name, text in rest.pages().items()}
    made |= {PAGES_OF_FILES[name]: _at_top((ROOT / name).read_text("utf-8")) for name in _COPIED}
    return {**made, PAGES_OF_FILES["README.md"]: _at_top(_quick_start())}


def _quick_start() -> str:
    """What the README shows: its sections from the first steps to the documentation, without its picture."""
    text = (ROOT / "README.md").read_text("utf-8")
    sections = text[text.index("## First steps") : text.index("## Documentation")]
    return "# Quick start\n\n" + re.sub(r"```mermaid\n.*?^```\n", "", sections, flags=re.MULTILINE | re.DOTALL)


def _at_top(text: str) -> str:
    """A page of the repository's top as one of `docs`: what it links to in `docs` stands beside it."""

    def moved(match: re.Match[str]) -> str:
        words, target, anchor = match[1], match[2], match[3] or ""
        if "://" in target:
            return match[0]
        return f"[{words}]({target.removeprefix('docs/') if target.startswith('docs/') else f'../{target}'}{anchor})"

    return _LINK.sub(moved, text)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made, the product's icon, and the files of the repository that pages link to."""
    for address, text in made_pages().items():
        files.append(File.generated(config, address, content=text))
    linked = {target for page in files.documentation_pages() for target in _outside(page.content_string, page.src_uri)}
    for target in sorted(linked):
        files.append(File.generated(config, f"files/{target}", abs_src_path=str(ROOT / target)))
    files.append(File.generated(config, "assets/icon.svg", abs_src_path=str(ROOT / "api/console/static/icon.svg")))
    files.append(File.generated(config, "assets/drawings.css", content=style_of_site()))
    return files


def _outside(text: str, page: str) -> list[str]:
    """Files of the repository, outside of `docs`, that a page links to."""
    found = [_in_repository(match[2], page) for match in _LINK.finditer(text)]
    return [one for one in found if one and one not in PAGES_OF_FILES and (ROOT / one).is_file()]


def _in_repository(target: str, page: str) -> str | None:
    """The path from the repository's top of what a page links to outside of `docs`; None for anything else."""
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), target))
    return None if "://" in target or path.startswith("docs/") else path


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Titles of fences that are files, and links that lead out of `docs`."""
    here = posixpath.dirname(page.file.src_uri) or "."

    def linked(match: re.Match[str]) -> str:
        words, target, anchor = match[1], match[2], match[3] or ""
        path = _in_repository(target, page.file.src_uri)
        if path is None:
            return match[0]
        if (ROOT / path).is_dir():
            return words
        found = PAGES_OF_FILES.get(path, f"files/{path}")
        return f"[{words}]({posixpath.relpath(found, here)}{anchor})"

    return _LINK.sub(linked, _FENCE_OF_FILE.sub(r'\1```\2 title="\3"', markdown))


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put pictures into the page itself, in the colours of the reader's palette, and mark results of filters."""

    def drawn(match: re.Match[str]) -> str:
        drawing = (ROOT / "docs" / "pictures" / f"{match[2]}.svg").read_text("utf-8")
        label = escape(match[1], quote=True).replace("&amp;", "&")
        drawing = re.sub(r"<style>.*?</style>\n", "", drawing, flags=re.DOTALL)  # the site has one for all
        named = drawing.replace("<svg ", f'<svg aria-label="{label}" ', 1)
        return f'<figure class="picture">{named}</figure>'

    if page.file.src_uri.startswith("filters/"):
        html = _RESULT.sub(r'<td class="result \1">\1</td>', html)
    return _PICTURE.sub(drawn, html)
