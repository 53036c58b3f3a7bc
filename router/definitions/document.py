"""What a definitions document holds, once it has been read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from bindery.router.documents import Source
from bindery.router.model import Object

DIVERTS_KEY: Final = "bindery_diverts"
FORMAT_KEY: Final = "rabbitmq_definition_format"
SINGLE_VHOST: Final = "single_virtual_host"
#: The component under which RabbitMQ's documents carry operator policies.
OPERATOR_COMPONENT: Final = "operator_policy"


@dataclass(frozen=True, slots=True)
class Entry:
    """One object of a document and the path where it stands, such as `bindings[3]`; `source` is the text read."""

    path: str
    item: Object
    source: Source | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Definitions:
    """A document that has been read; `entries` in the order in which they are applied.

    `users`, `permissions` and `topic_permissions` are the document's own objects, unread.
    """

    entries: tuple[Entry, ...]
    users: tuple[Mapping[str, Any], ...] = ()
    permissions: tuple[Mapping[str, Any], ...] = ()
    topic_permissions: tuple[Mapping[str, Any], ...] = ()
