"""Configurations of other brokers, read into definitions, with an account of what becomes of each object.

A reader is a module here and a row of `KINDS`. It takes a document and gives the objects of the source, each with what
it declares and what is to be said of it; `settling` makes definitions of them that can be applied, and leaves out,
with the reason, what the rules here refuse.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from bindery.router.importers.objects import SourceObject


@dataclass(frozen=True, slots=True)
class SourceKind:
    """A kind of broker: what it is called, and the module here that reads its configuration.

    `has_access` says whether its users and permissions can be carried over, `is_live` whether its management API
    gives the same document as a file.
    """

    title: str
    module: str
    has_access: bool = False
    is_live: bool = False

    def read(self, name: str, raw: bytes, *, access: bool = False) -> list[SourceObject]:
        """The objects of a document; with `access` users and permissions too.

        Raises DefinitionsRefused or InvalidInput for what is no configuration of this kind.
        """
        # a reader is loaded when it is asked for: the command line lists the kinds whatever it is called for
        module = import_module(f"{__name__}.{self.module}")
        return cast("list[SourceObject]", module.read(name, raw, access=access))


#: The name that `bindery import --from` takes -> the kind.
KINDS: Final[Mapping[str, SourceKind]] = {
    "rabbitmq": SourceKind("RabbitMQ", "rabbitmq", has_access=True, is_live=True),
    "broker-j": SourceKind("Qpid Broker-J", "broker_j"),
    "artemis": SourceKind("ActiveMQ Artemis", "artemis"),
    "activemq-classic": SourceKind("ActiveMQ Classic", "classic"),
    "eventbridge": SourceKind("Amazon EventBridge", "eventbridge"),
    "sns": SourceKind("Amazon SNS", "sns"),
    "service-bus": SourceKind("Azure Service Bus", "service_bus"),
    "knative": SourceKind("Knative Eventing", "knative"),
}

__all__ = ["KINDS", "SourceKind"]
