"""Reports in files: the name says which form, and a page of HTML needs nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path
from typing import Any, Final

from bindery.router.error_text import visible
from bindery.router.errors import InvalidInput

_SUFFIXES: Final = (".txt", ".json", ".html")
_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width">
<style>
:root {{ color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }}
body {{ max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }}
table {{ border-collapse: collapse; width: 100%; }}
th, td {{ text-align: left; vertical-align: top; padding: .35rem .8rem .35rem 0; border-bottom: 1px solid #8884; }}
ul {{ margin: 0; padding-left: 1rem; }}
small, .quiet {{ opacity: .7; }}
code {{ overflow-wrap: anywhere; }}
svg {{ max-width: 100%; height: auto; }}
</style></head><body>
<h1>{title}</h1>
{body}
</body></html>
"""


def check_form(path: Path) -> None:
    """Refuse a file whose name does not say which form the report is to have."""
    if path.suffix not in _SUFFIXES:
        raise InvalidInput(
            f"{path.name!r} does not say the form of the report", where="--report", hint="it ends .txt, .json or .html"
        )


def write(path: Path, report: Mapping[str, Any], *, text: Callable[[], str], html: Callable[[], str]) -> None:
    """Write a report in the form that the file's name ends with; raises InvalidInput where it cannot be written."""
    match path.suffix:
        case ".json":
            content = json.dumps(report, indent=1) + "\n"
        case ".html":
            content = html()
        case _:
            content = text()
    try:
        path.write_text(content, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"cannot write it: {error.strerror}", where=str(path)) from None


def page(title: str, body: str) -> str:
    """A page of HTML: its title as text, its body as HTML."""
    return _PAGE.format(title=shown(title), body=body)


def shown(text: str) -> str:
    """A text in HTML."""
    return escape(visible(text))
