"""How a topology is changed: the rules of declarations, and the editor that applies them (AMQP 0-9-1 §3.1).

`TopologyEditor` applies declarations, bindings and deletions to a copy: every operation checks its rule first and
raises without having changed anything, so an edit is whole or not at all. `TopologyEditor.changes` lists what to
persist.
"""

from bindery.router.declarations.editor import TopologyEditor
from bindery.router.declarations.filter_limits import FILTER_LIMITS, filter_limits, stored_limits
from bindery.router.declarations.payloads import at, declared_payload, stated_payload
from bindery.router.declarations.rules import binding_filters, divert_filter, queue_filter, transformation

__all__ = [
    "FILTER_LIMITS",
    "TopologyEditor",
    "at",
    "binding_filters",
    "declared_payload",
    "divert_filter",
    "filter_limits",
    "queue_filter",
    "stated_payload",
    "stored_limits",
    "transformation",
]
