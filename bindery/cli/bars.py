"""A picture of queues as SVG: a bar of three parts each, as a comparison of two routings has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from bindery.router.error_text import visible

#: Bars that are drawn.
DRAWN: Final = 40
INK: Final = "#20262d"
_ROW, _TOP, _NAMES, _BARS, _RIGHT = 22, 62, 240, 520, 150
#: Colours of what is the same on both sides, of what is more on the second, and of what is missing there.
_COLOURS: Final = ("#9aa5b1", "#2f9e63", "#d1495b")


@dataclass(frozen=True, slots=True)
class Bar:
    """A queue: copies that are the same, more, and missing; `change` says the latter two in words."""

    name: str
    same: int
    more: int
    missing: int
    change: str

    @property
    def parts(self) -> tuple[int, int, int]:
        """The three numbers, from left to right."""
        return self.same, self.more, self.missing


def draw(bars: Sequence[Bar], words: tuple[str, str, str], *, title: str, line: str) -> str:
    """The first DRAWN bars below a title and a line; `words` are what the three parts are called."""
    drawn = bars[:DRAWN]
    width = _NAMES + _BARS + _RIGHT
    height = _TOP + _ROW * len(drawn) + 40
    largest = max([sum(bar.parts) for bar in drawn], default=1) or 1
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="system-ui, sans-serif" font-size="12" role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        _text(16, 26, title, size=15, weight="600"),
        _text(16, 46, line),
    ]
    for number, bar in enumerate(drawn):
        parts += _drawn(bar, words, _TOP + _ROW * number, _BARS / largest)
    foot = _TOP + _ROW * len(drawn) + 24
    left = float(_NAMES)
    for colour, word in zip(_COLOURS, words, strict=True):
        parts.append(f'<rect x="{left:g}" y="{foot - 10}" width="12" height="12" fill="{colour}"/>')
        parts.append(_text(left + 18, foot, word))
        left += max(100, 7 * len(word) + 40)
    if len(bars) > len(drawn):
        parts.append(_text(16, foot, f"and {len(bars) - len(drawn):,} further queues"))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _drawn(bar: Bar, words: tuple[str, str, str], top: float, scale: float) -> list[str]:
    name = visible(bar.name)
    shown = name if len(name) <= 34 else name[:33] + "…"
    parts = [_text(_NAMES - 10, top + 14, shown, anchor="end")]
    left = float(_NAMES)
    for count, colour, word in zip(bar.parts, _COLOURS, words, strict=True):
        if count:
            size = max(count * scale, 1)
            parts.append(
                f'<rect x="{left:.1f}" y="{top + 3}" width="{size:.1f}" height="{_ROW - 6}" fill="{colour}">'
                f"<title>{escape(f'{name}: {count:,} {word}')}</title></rect>"
            )
            left += size
    parts.append(_text(left + 6, top + 14, bar.change))
    return parts


def _text(x: float, y: float, words: str, *, anchor: str = "start", size: int = 12, weight: str = "400") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}" '
        f'fill="{INK}">{escape(words)}</text>'
    )
