"""A change of a topology while it is put together: the objects that go, come and are altered."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any, Final

from bindery.router.definitions import as_entry
from bindery.router.definitions.document import DIVERTS_KEY
from bindery.router.model import Binding, Divert, Exchange, Queue, object_key

_SECTIONS: Final = {Exchange: "exchanges", Queue: "queues", Binding: "bindings", Divert: DIVERTS_KEY}


@dataclass(frozen=True, slots=True)
class Edits:
    """What a change deletes, adds and alters; `as_change` is the document that says so."""

    deleted: tuple[Binding, ...] = ()
    added: tuple[Binding | Exchange, ...] = ()
    altered: tuple[Exchange | Queue | Divert, ...] = ()

    @property
    def objects(self) -> int:
        """How many objects go, come or are altered."""
        return len(self.deleted) + len(self.added) + len(self.altered)

    def within(self, other: Edits) -> bool:
        """Whether another change does all of this, and perhaps more."""
        mine, theirs = (
            {*(one.identity for one in edits.deleted), *map(_stated, (*edits.added, *edits.altered))}
            for edits in (self, other)
        )
        return mine <= theirs

    def adding(self, item: Binding | Exchange) -> Edits:
        """With an object that was not there."""
        return replace(self, added=(*self.added, item))

    def replacing(self, old: Binding, new: Binding) -> Edits:
        """With another binding in place of one: a binding is told by all that it states (docs/apply.md)."""
        others = tuple(one for one in self.added if not (isinstance(one, Binding) and one.identity == old.identity))
        if len(others) < len(self.added):  # it came with this very change
            return replace(self, added=(*others, new))
        return replace(self, deleted=(*self.deleted, old), added=(*self.added, new))

    def altering(self, item: Exchange | Queue | Divert) -> Edits:
        """With an object that gets other properties."""
        others = tuple(one for one in self.altered if object_key(one) != object_key(item))
        return replace(self, altered=(*others, item))

    def as_change(self) -> dict[str, Any]:
        """The change as a document (`bindery.router.proposal`)."""
        document: dict[str, Any] = {}
        if self.deleted:
            document["delete"] = {"bindings": [_entry(one) for one in self.deleted]}
        for key, items in (("add", self.added), ("change", self.altered)):
            sections: dict[str, list[dict[str, Any]]] = defaultdict(list)
            for one in items:
                sections[_SECTIONS[type(one)]].append(_entry(one))
            if sections:
                document[key] = dict(sections)
        return document


def _stated(item: Binding | Exchange | Queue | Divert) -> object:
    """What makes two additions the same: a binding's id is given out when it is made."""
    return ("added", item.identity) if isinstance(item, Binding) else (object_key(item), repr(item))


def _entry(item: Binding | Exchange | Queue | Divert) -> dict[str, Any]:
    return {key: value for key, value in as_entry(item).items() if key != "id"}
