"""The pictures of the documentation.

    python -m handbook.pictures

writes those of `docs/pictures` anew. Pictures of routing are drawn from the topology and the message that a page
prints, as the engine routes it; charts are drawn from what was measured (`handbook/figures.py`); the others are drawn
by hand, in `handbook/scenes.py` and `handbook/lives.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from bindery.router.documents import read_source
from bindery.router.explain import Explainer, Explanation
from bindery.router.links import FILTER_ARGUMENTS, Alternate, Links
from bindery.router.links import Link as Way
from bindery.router.message import Message, to_batch
from bindery.router.model import Binding, Divert, Topology
from bindery.router.proposal import read_change
from handbook.drawing import Box, Drawing, Kind, width_of
from handbook.figures import FOLDER, charts
from handbook.hooks import ROOT
from handbook.lives import LIVES
from handbook.scenes import SCENES

#: Pixels: margins, the width and height of an object, and the least distance between two of them.
_TOP, _LEFT, _BOX, _HIGH, _GAP = 16, 4, 118, 52, 22


@dataclass(frozen=True, slots=True)
class Routed:
    """A picture of the message of a page under the topology of the page, each by the name of its block."""

    page: str
    topology: str
    message: str


_EXCHANGES: Final = "docs/concepts/exchanges.md"
ROUTED: Final[Mapping[str, Routed]] = {
    "direct": Routed(_EXCHANGES, "direct.yaml", "card.json"),
    "topic": Routed(_EXCHANGES, "topic.yaml", "flight.json"),
    "fanout": Routed(_EXCHANGES, "fanout.yaml", "price.json"),
    "headers": Routed(_EXCHANGES, "headers.yaml", "parcel.json"),
    "alternate": Routed(_EXCHANGES, "alternate.yaml", "order.json"),
    "divert": Routed(_EXCHANGES, "divert.json", "large.json"),
    "filter": Routed("docs/concepts/filters.md", "late.yaml", "flight.json"),
}


def pictures() -> dict[str, str]:
    """Name -> SVG of every picture."""
    drawn = {name: _Route(one).drawing().svg() for name, one in ROUTED.items()}
    return {**drawn, **{name: scene().svg() for name, scene in {**SCENES, **LIVES}.items()}, **charts()}


def block(page: str, name: str) -> str:
    """The text of a fence of a page, by the name of the file that it is."""
    found = re.search(rf"^```\w+ {re.escape(name)}\n(.*?)^```$", (ROOT / page).read_text("utf-8"), re.M | re.S)
    if found is None:
        raise LookupError(f"{page} has no block {name}")
    return found[1]


class _Route:
    """A routed message as layers: the message, exchanges by their distance from it, queues."""

    def __init__(self, shown: Routed) -> None:
        source = read_source(shown.topology, block(shown.page, shown.topology).encode())
        self._topology: Topology = read_change([source], "/").applied_to(Topology.empty())
        self._message: dict[str, Any] = json.loads(block(shown.page, shown.message))
        self._links = Links(self._topology, "/")
        batch = to_batch([Message.from_json(self._message)])
        (self._explained,) = Explainer(self._topology, "/").explain(batch, clock_ms=0)
        self._layers = self._of_exchanges()
        self._queues = [item.name for item in self._topology.in_vhost("/")[1]]

    def _of_exchanges(self) -> list[list[str]]:
        layers, seen = [[self._message["exchange"]]], {self._message["exchange"]}
        while True:
            following = [
                way.destination
                for name in layers[-1]
                for way in self._links.leaving(name)
                if way.destination_type == "exchange" and way.destination not in seen
            ]
            if not following:
                return layers
            layers.append(list(dict.fromkeys(following)))
            seen.update(following)

    def drawing(self) -> Drawing:
        """The picture: what was taken is lit, what a filter stopped is marked, with the reason."""
        card = self._card()
        widest = max(110.0, *(width_of(line, code=True) + 20 for line in card))
        wide, high = self._room()
        row = max(_HIGH + _GAP, high + 14)
        columns = len(self._layers)
        left, step = _LEFT + widest + 60, _BOX + wide + 100
        height = 2 * _TOP + row * (len(self._queues) - 1) + _HIGH
        drawing = Drawing(self._title(), self._said(), left + step * columns + _BOX + 4, height)
        places = {("queue", name): (left + step * columns, _TOP + row * n) for n, name in enumerate(self._queues)}
        for column, names in reversed(list(enumerate(self._layers))):
            for name in names:
                ends = [places[end] for way in self._links.leaving(name) if (end := _end(way)) in places]
                mean = sum(y for _, y in ends) / len(ends) if ends and column else (height - _HIGH) / 2
                places["exchange", name] = (left + step * column, mean)
        boxes = {end: self._box(drawing, end, place) for end, place in places.items()}
        message = drawing.box(_LEFT, (height - 20 - 16 * len(card)) / 2, widest, card, kind="lit", code=True)
        drawing.arrow(message.right, boxes["exchange", self._message["exchange"]].left, kind="lit")
        for name in (name for names in self._layers for name in names):
            self._leave(drawing, name, boxes)
        return drawing

    def _room(self) -> tuple[float, float]:
        """What the words on a line take at most: width and height."""
        lines: dict[tuple[str, ...], list[str]] = {}
        for way in (way for names in self._layers for name in names for way in self._links.leaving(name)):
            lines.setdefault((way.source, *_end(way)), []).extend(_words(way))
        return (
            max(width_of(text, code=True) for texts in lines.values() for text in texts or [""]),
            max(16.0 * len(texts) for texts in lines.values()),
        )

    def _box(self, drawing: Drawing, end: tuple[str, str], place: tuple[float, float]) -> Box:
        kind, name = end
        if kind == "queue":
            lit: Kind = "lit" if name in self._explained.queues else "box"
            return drawing.box(*place, _BOX, [name, "queue"], kind=lit)
        visited = {visit.exchange for visit in self._explained.visits}
        words = [name, f"{self._links.exchanges[name].type} exchange"]
        return drawing.box(*place, _BOX, words, kind="lit" if name in visited else "box")

    def _leave(self, drawing: Drawing, exchange: str, boxes: Mapping[tuple[str, str], Box]) -> None:
        """The ways that leave an exchange; several to one object are one line."""
        taken = _verdicts(self._explained)
        ends: dict[tuple[str, str], list[Way]] = {}
        for way in self._links.leaving(exchange):
            ends.setdefault(_end(way), []).append(way)
        for end, ways in ends.items():
            verdicts = [taken.get(_key(way)) for way in ways]
            kind: Kind = "lit" if {"delivered", "forwarded"} & set(verdicts) else "box"
            kind = "lost" if kind == "box" and {"filter", "queue-filter"} & set(verdicts) else kind
            labels = [one for way in ways for one in self._labels(way, taken.get(_key(way)))]
            drawing.arrow(boxes["exchange", exchange].right, boxes[end].left, kind=kind, labels=labels, at=0.64)

    def _labels(self, way: Way, verdict: str | None) -> list[tuple[str, str]]:
        look = (
            "code way" if verdict in ("delivered", "forwarded") else "code no" if verdict == "filter" else "code quiet"
        )
        return [(text, look) for text in _words(way)]

    def _card(self) -> list[str]:
        lines = ["message"]
        if key := self._message.get("routing_key"):
            lines.append(f"key {key}")
        properties = self._message.get("application_properties", {})
        return lines + [f"{name} = {json.dumps(value)}" for name, value in properties.items()]

    def _title(self) -> str:
        return f"A message published to {self._message['exchange']}"

    def _said(self) -> str:
        reached = ", ".join(self._explained.queues) or "no queue"
        return f"{', '.join(self._card())}: reaches {reached} of {', '.join(self._queues)}"


def _end(way: Way) -> tuple[str, str]:
    return way.destination_type or "queue", way.destination


def _key(way: Way) -> tuple[Any, ...]:
    return (way.kind, way.source) if isinstance(way, Alternate) else (way.id,)


def _verdicts(explained: Explanation) -> dict[tuple[Any, ...], str]:
    steps = (step for visit in explained.visits for step in visit.steps)
    return {
        (step.link.kind, step.link.source) if step.link.id is None else (step.link.id,): step.verdict for step in steps
    }


def _words(way: Way) -> list[str]:
    """What decides whether a message takes a way, in one or two lines."""
    match way:
        case Alternate():
            return [way.kind]
        case Divert():
            return [f"{'exclusive ' if way.exclusive else ''}divert", way.filter]
        case Binding():
            criteria = [
                f"{name} is there" if value is None else f"{name} = {json.dumps(value)}"
                for name, value in way.arguments.items()
                if name not in FILTER_ARGUMENTS and name != "x-match"
            ]
            match_ = [str(way.arguments["x-match"])] if "x-match" in way.arguments else []
            filters = [str(value) for name, value in way.arguments.items() if name in FILTER_ARGUMENTS]
            return [one for one in (way.routing_key, *match_, *criteria, *filters) if one]


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, drawn in pictures().items():
        (FOLDER / f"{name}.svg").write_text(drawn, "utf-8")
