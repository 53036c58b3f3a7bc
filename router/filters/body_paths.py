"""Where in a body a reference leads: `body.items[0].sku` as the steps from the whole body inwards."""

from __future__ import annotations

import re
from typing import Final

from bindery.router.filters.dialect import DIALECTS

#: Names of members and places in lists, from the whole body inwards.
Path = tuple[str | int, ...]

#: How members are written, for hints.
MEMBERS: Final = "members of the body are written body.name, body[0] or body['any name']"
#: A step further into the body.
STEP: Final = re.compile(r"\.(?P<name>[^.\[]+)|\[(?P<place>[0-9]+)\]|\['(?P<quoted>(?:[^']|'')*)'\]")
_REFERENCE: Final = re.compile(DIALECTS["jms"].body)


def steps(text: str) -> Path:
    """The steps of a reference into the body, as the languages write it."""
    return tuple(
        int(step["place"]) if step["place"] else step["name"] or step["quoted"].replace("''", "'")
        for step in STEP.finditer(text)
    )


def steps_of_key(name: str) -> Path | None:
    """The steps of a header key that is a reference into the body, written as in selectors; None for any other."""
    return steps(name) if _REFERENCE.fullmatch(name) else None


def begins_in_body(name: str) -> bool:
    """Whether a header key begins as a reference into the body does."""
    return name == "body" or name.startswith(("body.", "body["))
