"""Boxes, arrows and words as SVG, in colours that a palette gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Final, Literal

Kind = Literal["box", "lit", "soft", "lost"]
#: Name of a colour -> in light, in dark.
COLOURS: Final = {
    "ink": ("#1f2937", "#e6eaf2"),
    "quiet": ("#5b6779", "#a3aec2"),
    "line": ("#94a3b8", "#66738c"),
    "paper": ("#ffffff", "#1e2430"),
    "box": ("#f1f5fb", "#273143"),
    "edge": ("#b9c8e2", "#43526e"),
    "way": ("#1d63d1", "#7fb0ff"),
    "lit": ("#dbe8fd", "#2b4470"),
    "no": ("#b4232c", "#ff8a8f"),
}
_RULES: Final = """
.drawing{font-family:system-ui,-apple-system,"Segoe UI",Roboto,Arial,sans-serif}
.drawing text{fill:var(--ink);font-size:13px}
.drawing .code{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:11.5px}
.drawing .name{font-weight:600}
.drawing .small{font-size:11.5px}
.drawing .quiet{fill:var(--quiet)}
.drawing .way{fill:var(--way)}
.drawing .no{fill:var(--no)}
.drawing .middle{text-anchor:middle}
.drawing rect.box{fill:var(--box);stroke:var(--edge)}
.drawing rect.lit{fill:var(--lit);stroke:var(--way);stroke-width:1.6}
.drawing rect.soft{fill:none;stroke:var(--line);stroke-dasharray:4 3}
.drawing rect.lost{fill:none;stroke:var(--no)}
.drawing rect.back{fill:var(--paper)}
.drawing path{fill:none;stroke:var(--line);stroke-width:1.4}
.drawing path.lit{stroke:var(--way);stroke-width:2.2}
.drawing path.lost{stroke:var(--no);stroke-dasharray:4 3}
.drawing path.soft{stroke-dasharray:4 3}
.drawing path.tip,.drawing path.tip.lit,.drawing path.tip.lost{fill:var(--line);stroke:none}
.drawing path.tip.lit{fill:var(--way)}
.drawing path.tip.lost{fill:var(--no)}
"""
#: Width of a sign of code, and of other words, in pixels.
_CODE, _WORD = 7.0, 6.5


def palette(dark: bool) -> str:
    """The colours as declarations of CSS."""
    return "".join(f"--{name}:{both[dark]};" for name, both in COLOURS.items())


def style_of_site() -> str:
    """Rules of drawings inside of a page, by the palette that the reader has chosen."""
    chosen = (("default", False), ("slate", True))
    return _RULES + "".join(
        f'[data-md-color-scheme="{scheme}"] .drawing{{{palette(dark)}}}\n' for scheme, dark in chosen
    )


def width_of(text: str, *, code: bool = False) -> float:
    """About how wide a line of text is drawn."""
    return len(text) * (_CODE if code else _WORD)


@dataclass(frozen=True, slots=True)
class Box:
    """Where a box stands."""

    x: float
    y: float
    width: float
    height: float

    @property
    def left(self) -> tuple[float, float]:
        """The middle of its left side."""
        return self.x, self.y + self.height / 2

    @property
    def right(self) -> tuple[float, float]:
        """The middle of its right side."""
        return self.x + self.width, self.y + self.height / 2

    @property
    def top(self) -> tuple[float, float]:
        """The middle of its upper side."""
        return self.x + self.width / 2, self.y

    @property
    def bottom(self) -> tuple[float, float]:
        """The middle of its lower side."""
        return self.x + self.width / 2, self.y + self.height


@dataclass
class Drawing:
    """A picture of a size, with a title and a description for those who do not see it."""

    title: str
    description: str
    width: float
    height: float
    _lines: list[str] = field(default_factory=list)
    _above: list[str] = field(default_factory=list)

    def box(
        self, x: float, y: float, width: float, words: Sequence[str], *, kind: Kind = "box", code: bool = False
    ) -> Box:
        """A box as high as its words: a name, and smaller lines below it (as code, if told)."""
        height = 20 + 16 * len(words)
        self._above.append(f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="7"/>')
        for place, line in enumerate(words):
            look = "name" if place == 0 else "code quiet" if code else "small quiet"
            self._above.append(_text(x + width / 2, y + 23 + 16 * place, line, f"{look} middle"))
        return Box(x, y, width, height)

    def bar(self, x: float, y: float, width: float, height: float, *, kind: Kind = "box") -> None:
        """A rectangle without words."""
        self._above.append(f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"/>')

    def rule(self, x: float, top: float, bottom: float) -> None:
        """An upright line of a scale, below all else."""
        self._lines.append(f'<path class="soft" d="M{x:g} {top:g}V{bottom:g}"/>')

    def words(self, x: float, y: float, lines: Sequence[str], look: str = "small quiet") -> None:
        """Lines of text from a place on."""
        self._above += [_text(x, y + 16 * place, line, look) for place, line in enumerate(lines)]

    def arrow(
        self,
        begin: tuple[float, float],
        end: tuple[float, float],
        *,
        kind: Kind = "box",
        labels: Sequence[tuple[str, str]] = (),
        at: float = 0.5,
    ) -> None:
        """A line from place to place with words on it, each with its look; `at` says where on the way they stand."""
        (x0, y0), (x1, y1) = begin, end
        bend, back = (x1 - x0) / 2, 7 if y1 > y0 else -7
        if abs(x1 - x0) < 1:
            curve, tip = f"L{x1:g} {y1 - back:g}", f"M{x1:g} {y1:g}l-4.5{-9 if back > 0 else ' 9'}h9z"
        else:
            curve = f"C{x0 + bend:g} {y0:g} {x1 - bend:g} {y1:g} {x1 - 7:g} {y1:g}"
            tip = f"M{x1:g} {y1:g}l-9-4.5v9z"
        self._lines.append(f'<path class="{kind}" d="M{x0:g} {y0:g}{curve}"/>')
        self._lines.append(f'<path class="tip {kind}" d="{tip}"/>')
        # the curve bends late and early, so that its height at a part of the way is that of a smooth step
        x, y = x0 + (x1 - x0) * at, y0 + (y1 - y0) * (at * at * (3 - 2 * at))
        self._labels(x, y, labels)

    def _labels(self, x: float, y: float, labels: Sequence[tuple[str, str]]) -> None:
        if not labels:
            return
        width = max(width_of(text, code="code" in look) for text, look in labels) + 8
        top = y - 8 * len(labels)
        self._above.append(
            f'<rect class="back" x="{x - width / 2:g}" y="{top:g}" '
            f'width="{width:g}" height="{16 * len(labels):g}" rx="3"/>'
        )
        for place, (text, look) in enumerate(labels):
            self._above.append(_text(x, top + 12 + 16 * place, text, f"{look} middle"))

    def svg(self) -> str:
        """The picture as a file of its own, in the colours that the reader's system prefers."""
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="drawing" width="{self.width:g}" '
            f'viewBox="0 0 {self.width:g} {self.height:g}" role="img">'
            f"<title>{escape(self.title)}</title><desc>{escape(self.description)}</desc>"
        )
        style = (
            f"<style>.drawing{{{palette(False)}}}{_RULES.replace(chr(10), '')}"
            f"@media (prefers-color-scheme:dark){{.drawing{{{palette(True)}}}}}</style>"
        )
        return "\n".join((head, style, *self._lines, *self._above, "</svg>")) + "\n"


def _text(x: float, y: float, text: str, look: str) -> str:
    return f'<text class="{look}" x="{x:g}" y="{y:g}">{escape(text)}</text>'
