"""Where the parts of a document stand in its text, by their paths: `bindings[3].arguments.x-match`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Fault(NamedTuple):
    """What is wrong with a text, and the offset where, in code points."""

    offset: int
    message: str
    hint: str | None = None


class Unreadable(Exception):
    """A text of which nothing can be read; `fault` says why."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


@dataclass(slots=True)
class Places:
    """Offsets in code points: `values` from where to where a value stands, `keys` where its key does."""

    values: dict[str, tuple[int, int]] = field(default_factory=dict)
    keys: dict[str, int] = field(default_factory=dict)

    def nearest(self, path: str) -> str:
        """The innermost part on the way to a path that exists."""
        while path and path not in self.values:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return path

    def value(self, path: str) -> tuple[int, int]:
        """The value at a path, or at the innermost part on the way to it that exists."""
        return self.values.get(self.nearest(path), (0, 0))

    def key(self, path: str) -> int:
        """The key of a path, or what `value` gives when there is no such key."""
        return self.keys[path] if path in self.keys else self.value(path)[0]


def member(path: str, key: str) -> str:
    """The path of a member of an object."""
    return f"{path}.{key}" if path else key


def repeated(key: str) -> str:
    """What is said of a key that an object has twice."""
    return f"the key {key!r} stands twice in one object"
