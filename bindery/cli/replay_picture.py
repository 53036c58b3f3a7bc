"""The picture of a comparison: per queue what is kept, gained and lost, as SVG, alone or in a page."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from bindery.cli.bars import INK, Bar, draw


def svg(report: Mapping[str, Any], *, title: str) -> str:
    """A bar per queue, those that change most first: copies that stay, those gained, those lost."""
    unroutable = report["unroutable"]
    line = (
        f"{report['messages']:,} messages, {report['copies']['before']:,} copies before and "
        f"{report['copies']['after']:,} after, unroutable {sum(unroutable['before'].values()):,} before and "
        f"{sum(unroutable['after'].values()):,} after"
    )
    return draw([_bar(queue) for queue in report["queues"]], ("unchanged", "gained", "lost"), title=title, line=line)


def _bar(queue: Mapping[str, Any]) -> Bar:
    signs = (("gained", "+"), ("lost", "−"))
    change = ", ".join(f"{sign}{queue[field]:,}" for field, sign in signs if queue[field])
    return Bar(str(queue["queue"]), queue["unchanged"], queue["gained"], queue["lost"], change or "no change")


def html(report: Mapping[str, Any], *, title: str) -> str:
    """A page with the picture and a table of every queue, its examples and what explains them."""
    rows = "\n".join(_row(queue) for queue in report["queues"])
    files = report["files"]
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{escape(title)}</title>
<style>
body {{ font: 14px/1.5 system-ui, sans-serif; color: {INK}; margin: 2rem; max-width: 64rem }}
table {{ border-collapse: collapse; width: 100% }}
th, td {{ text-align: right; padding: .3rem .6rem; border-bottom: 1px solid #e3e7eb; vertical-align: top }}
th:first-child, td:first-child {{ text-align: left }}
li {{ text-align: left }}
</style>
</head>
<body>
{svg(report, title=title)}
<p>Files of the copies: {files["before"]:,} before, {files["after"]:,} after.</p>
<table>
<thead><tr><th>queue</th><th>before</th><th>after</th><th>unchanged</th><th>gained</th><th>lost</th></tr></thead>
<tbody>
{rows}
</tbody>
</table>
</body>
</html>
"""


def _row(queue: Mapping[str, Any]) -> str:
    examples = "".join(f"<li>{escape(line)}</li>" for line in example_lines(queue))
    details = f"<ul>{examples}</ul>" if examples else ""
    numbers = "".join(f"<td>{queue[f]:,}</td>" for f in ("before", "after", "unchanged", "gained", "lost"))
    return f"<tr><td>{escape(str(queue['queue']))}{details}</td>{numbers}</tr>"


def example_lines(queue: Mapping[str, Any]) -> list[str]:
    """The examples of a queue, one sentence each."""
    return [f"{one['direction']} {one['row']}: " + "; ".join(_reasons(one)) for one in queue["examples"]]


def _reasons(one: Mapping[str, Any]) -> list[str]:
    gained = one["direction"] == "gained"
    found = []
    if one["because"]:
        found.append(f"{'now' if gained else 'before'} by {', '.join(one['because'])}")
    if one["not_because"]:
        found.append(f"{'before' if gained else 'now'} not: {one['not_because'][0]}")
    return found or ["no reason is known"]
