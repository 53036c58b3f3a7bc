"""A topology as it would be after a change that nobody has made yet.

A proposal is JSON: a definitions document, whose objects are declared over the base (objects that exist
get the properties given), or an object with any of

    {"delete": {"bindings": [3], "diverts": ["d"], "queues": ["q"], "exchanges": ["x"]},
     "definitions": {…},
     "replace": false}

What is under `delete` goes first. With `replace` the vhost is empty before the definitions are applied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from bindery.router.declarations import TopologyEditor
from bindery.router.definitions import apply, parse_definitions
from bindery.router.errors import InvalidInput, NotFound
from bindery.router.model import Topology, Vhost

_KEYS: Final = frozenset({"delete", "definitions", "replace"})


def propose(base: Topology, vhost: str, proposal: Any) -> Topology:
    """The topology after a proposal; its version stays that of the base.

    Raises InvalidInput for a document that cannot be read, DefinitionsRefused for one that cannot be applied.
    """
    base.vhost(vhost)
    if not isinstance(proposal, Mapping):
        raise InvalidInput("a proposal is a JSON object", where="proposal")
    stated = proposal if proposal.keys() & _KEYS else {"definitions": proposal}
    unknown = sorted(stated.keys() - _KEYS)
    if unknown:
        raise InvalidInput(f"unknown key {unknown[0]!r}", where="proposal", hint=", ".join(sorted(_KEYS)))
    editor = TopologyEditor(base)
    if stated.get("replace") is True:
        _empty(editor, vhost)
    _delete(editor, vhost, stated.get("delete") or {})
    document = stated.get("definitions") or {}
    if not isinstance(document, Mapping):
        raise InvalidInput("a definitions document is a JSON object", where="proposal.definitions")
    states_own = any(isinstance(item, Mapping) and "vhost" in item for item in _listed(document))
    apply(parse_definitions(document, vhost=None if states_own else vhost), editor, overwrite=True)
    editor.topology.version = base.version
    return editor.topology


def _listed(document: Mapping[str, Any]) -> list[Any]:
    return [item for part in document.values() if isinstance(part, list) for item in part]


def _empty(editor: TopologyEditor, vhost: str) -> None:
    kept: Vhost = editor.topology.vhost(vhost)
    editor.delete_vhost(vhost)
    editor.declare_vhost(kept)


def _delete(editor: TopologyEditor, vhost: str, delete: Any) -> None:
    if not isinstance(delete, Mapping) or delete.keys() - _DELETES.keys():
        raise InvalidInput("delete is an object of lists", where="proposal.delete", hint=", ".join(_DELETES))
    for kind, remove in _DELETES.items():
        names = delete.get(kind, [])
        if not isinstance(names, list):
            raise InvalidInput("expected an array", where=f"proposal.delete.{kind}")
        for name in names:
            remove(editor, vhost, name)


def _unbind(editor: TopologyEditor, vhost: str, number: Any) -> None:
    binding = editor.topology.bindings.get(number) if isinstance(number, int) else None
    if binding is None or binding.vhost != vhost:
        raise NotFound(f"no binding with id {number!r} in vhost {vhost!r}", where="proposal.delete.bindings")
    editor.unbind(binding)


#: What can be deleted, in the order in which it is.
_DELETES: Final[Mapping[str, Callable[[TopologyEditor, str, Any], None]]] = {
    "bindings": _unbind,
    "diverts": lambda editor, vhost, name: editor.delete_divert(vhost, name),
    "queues": lambda editor, vhost, name: editor.delete_queue(vhost, name),
    "exchanges": lambda editor, vhost, name: editor.delete_exchange(vhost, name),
}
