"""The picture of a comparison: per queue what is kept, gained and lost, as SVG, alone or in a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final

#: Queues that are drawn, those that change most first.
DRAWN: Final = 40
_ROW, _TOP, _NAMES, _BARS, _RIGHT = 22, 62, 240, 520, 150
_KEPT, _GAINED, _LOST, _INK = "#9aa5b1", "#2f9e63", "#d1495b", "#20262d"


def svg(report: Mapping[str, Any], *, title: str) -> str:
    """A bar per queue: grey for copies that stay, green for those gained, red for those lost."""
    queues: Sequence[Mapping[str, Any]] = report["queues"][:DRAWN]
    hidden = len(report["queues"]) - len(queues)
    width = _NAMES + _BARS + _RIGHT
    height = _TOP + _ROW * len(queues) + 40
    largest = max([queue["unchanged"] + queue["gained"] + queue["lost"] for queue in queues], default=1) or 1
    unroutable = report["unroutable"]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="system-ui, sans-serif" font-size="12" role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        _text(16, 26, title, size=15, weight="600"),
        _text(
            16,
            46,
            f"{report['messages']:,} messages, {report['copies']['before']:,} copies before and "
            f"{report['copies']['after']:,} after, unroutable {sum(unroutable['before'].values()):,} before and "
            f"{sum(unroutable['after'].values()):,} after",
        ),
    ]
    for number, queue in enumerate(queues):
        parts += _bar(queue, _TOP + _ROW * number, _BARS / largest)
    foot = _TOP + _ROW * len(queues) + 24
    for place, (colour, words) in enumerate(((_KEPT, "unchanged"), (_GAINED, "gained"), (_LOST, "lost"))):
        parts.append(f'<rect x="{_NAMES + 100 * place}" y="{foot - 10}" width="12" height="12" fill="{colour}"/>')
        parts.append(_text(_NAMES + 100 * place + 18, foot, words))
    if hidden:
        parts.append(_text(16, foot, f"and {hidden:,} further queues"))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _bar(queue: Mapping[str, Any], top: float, scale: float) -> list[str]:
    name = str(queue["queue"])
    shown = name if len(name) <= 34 else name[:33] + "…"
    parts = [_text(_NAMES - 10, top + 14, shown, anchor="end")]
    left = float(_NAMES)
    for field, colour in (("unchanged", _KEPT), ("gained", _GAINED), ("lost", _LOST)):
        size = queue[field] * scale
        if queue[field]:
            tip = escape(f"{name}: {queue[field]:,} {field}")
            parts.append(
                f'<rect x="{left:.1f}" y="{top + 3}" width="{max(size, 1):.1f}" height="{_ROW - 6}" fill="{colour}">'
                f"<title>{tip}</title></rect>"
            )
            left += max(size, 1)
    change = ", ".join(f"{sign}{queue[f]:,}" for f, sign in (("gained", "+"), ("lost", "−")) if queue[f])
    parts.append(_text(left + 6, top + 14, change or "no change"))
    return parts


def _text(x: float, y: float, words: str, *, anchor: str = "start", size: int = 12, weight: str = "400") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}" '
        f'fill="{_INK}">{escape(words)}</text>'
    )


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
body {{ font: 14px/1.5 system-ui, sans-serif; color: {_INK}; margin: 2rem; max-width: 64rem }}
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
