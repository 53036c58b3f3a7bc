"""The picture and the page of a comparison: well-formed, complete, and safe with any name."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

from bindery.cli.bars import DRAWN
from bindery.cli.replay_picture import html, svg

SVG = "{http://www.w3.org/2000/svg}"


def report(*queues: tuple[str, int, int, int]) -> dict[str, Any]:
    return {
        "messages": 10,
        "copies": {"before": 5, "after": 6},
        "unroutable": {"before": {"filtered": 2}, "after": {}, "change": -2},
        "files": {"before": 3, "after": 4},
        "queues": [
            {
                "queue": name,
                "before": unchanged + lost,
                "after": unchanged + gained,
                "unchanged": unchanged,
                "gained": gained,
                "lost": lost,
                "examples": [
                    {"direction": "gained", "row": "s:0:1", "because": ["binding 2"], "not_because": ["a = 1 is false"]}
                ],
            }
            for name, unchanged, gained, lost in queues
        ],
    }


def test_a_bar_is_as_long_as_its_copies() -> None:
    root = ElementTree.fromstring(svg(report(("late", 50, 25, 25), ("all", 100, 0, 0)), title="t"))  # noqa: S314
    widths = {
        bar.find(f"{SVG}title").text: float(bar.get("width"))  # type: ignore[union-attr, arg-type]
        for bar in root.iter(f"{SVG}rect")
        if bar.find(f"{SVG}title") is not None
    }
    assert widths["late: 25 gained"] * 2 == widths["late: 50 unchanged"]
    assert widths["late: 25 lost"] * 4 == widths["all: 100 unchanged"]
    texts = [item.text for item in root.iter(f"{SVG}text")]
    assert "+25, −25" in texts
    assert "no change" in texts


def test_names_cannot_break_out() -> None:
    name = '<script>alert("x")</script>&'
    drawn = svg(report((name, 1, 1, 0)), title=name)
    ElementTree.fromstring(drawn)  # noqa: S314  # our own text
    page = html(report((name, 1, 1, 0)), title=name)
    assert "<script" not in page
    assert "now by binding 2; before not: a = 1 is false" in page


def test_nothing_and_very_many_queues_can_be_drawn() -> None:
    ElementTree.fromstring(svg(report(), title="t"))  # noqa: S314
    many = svg(report(*((f"q{n}", 1, 0, 0) for n in range(DRAWN + 7))), title="t")
    assert "and 7 further queues" in many
    assert f"q{DRAWN}" not in many
