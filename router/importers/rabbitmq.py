"""RabbitMQ: definitions files, as a node or its management API exports them.

The objects are those of `bindery.router.definitions`; what is added is what becomes of each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from bindery.router.definitions.document import DIVERTS_KEY, FORMAT_KEY, OPERATOR_COMPONENT, SINGLE_VHOST
from bindery.router.definitions.keys import BESIDE, Ignored, check_object, unknown_key
from bindery.router.documents import Source, read_source, refusal
from bindery.router.documents.places import member
from bindery.router.errors import InvalidInput
from bindery.router.exchanges import EXCHANGE_TYPES
from bindery.router.importers.objects import SourceObject, late
from bindery.router.known_arguments import KNOWN
from bindery.router.limits import LIMITS_KIND
from bindery.router.model.objects import PARAMETER_PREFIX
from bindery.router.queue_limits import (
    BOUNDS,
    DEAD_LETTER_EXCHANGE,
    DEAD_LETTER_ROUTING_KEY,
    DROP_HEAD,
    EXPIRES,
    MESSAGE_TTL,
    OVERFLOW,
    argument,
)

#: Sections of a document -> what one of their objects is called.
_SECTIONS: Final[Mapping[str, str]] = {
    "vhosts": "vhost",
    "users": "user",
    "permissions": "permission",
    "topic_permissions": "topic permission",
    "global_parameters": "global parameter",
    "parameters": "parameter",
    "policies": "policy",
    "exchanges": "exchange",
    "queues": "queue",
    "bindings": "binding",
    DIVERTS_KEY: "divert",
}
_ACCESS: Final = frozenset({"users", "permissions", "topic_permissions"})
#: Keys of users and permissions: those that are read.
_OF_ACCESS: Final[Mapping[str, frozenset[str]]] = {
    "users": frozenset({"name", "password_hash", "hashing_algorithm", "password", "tags", "limits"}),
    "permissions": frozenset({"user", "vhost", "configure", "write", "read"}),
    "topic_permissions": frozenset({"user", "vhost", "exchange", "write", "read"}),
}
#: Exchange types of RabbitMQ's plugins -> what to do without them, should there be no such type here.
_PLUGINS: Final[Mapping[str, str]] = {
    "x-consistent-hash": "a topic or direct exchange whose keys are made by the job's expressions",
    "x-modulus-hash": "a direct exchange whose keys are made by the job's expressions",
    "x-random": "a direct exchange whose keys are made by the job's expressions; choice by chance cannot be replayed",
    "x-local-random": "a direct exchange whose keys are made by the job's expressions; nothing is local to a node here",
    "x-recent-history": "a fanout exchange; a new queue gets earlier messages by backfilling (`bindery backfill`)",
    "x-delayed-message": "an exchange of the type in `x-delayed-type`; messages are not delayed here",
    "x-jms-topic": "a topic exchange whose bindings have `x-filter-jms-selector`",
    "x-rtopic": "a topic exchange; patterns in routing keys have no equal",
    "x-federation-upstream": "leave it: it is of a link, and `bindery drain` takes messages from the upstream",
    "x-event": "the history of the topology (`bindery topology versions`) says what was declared and deleted",
}
_LATE: Final = late("RabbitMQ")
_KEPT_LATE: Final = frozenset({MESSAGE_TTL, EXPIRES, *BOUNDS})
_WITH_LIMITS: Final = frozenset({DEAD_LETTER_EXCHANGE, DEAD_LETTER_ROUTING_KEY})
_REJECTED: Final = "gets what expires or is too many; nothing is rejected by consumers here"
_NO_ACCESS: Final = "users and permissions are no part of a topology"


def read(name: str, raw: bytes, *, access: bool = False) -> list[SourceObject]:
    """The objects of a definitions document, in its order; with `access` users and permissions too.

    Raises DefinitionsRefused for a document whose sections are no lists of objects.
    """
    source = read_source(name, raw)
    found: list[SourceObject] = []
    home = _home(source.value)
    if home is not None:
        found.append(SourceObject("vhost", home, "original_vhost_name", None, [("vhosts", {"name": home})]))
    for section, content in source.value.items():
        here = member("", section)
        if section in _SECTIONS:
            for number, one in enumerate(_objects(source, content, here)):
                stated = one if home is None or "vhost" in one else {**one, "vhost": home}
                found.append(_read(section, stated, f"{here}[{number}]", access=access))
        elif section in BESIDE:
            if content not in ([], {}, None) and (home is None or here != "original_vhost_name"):
                found.append(SourceObject("document", section, here))
                found[-1].idle("", BESIDE[section])
        elif section != FORMAT_KEY:
            refused = unknown_key(here, section, frozenset({*_SECTIONS, *BESIDE, FORMAT_KEY}))
            found.append(SourceObject("document", section, here))
            found[-1].lost(refused.message, hint=refused.hint)
    return found


def _home(document: Mapping[str, Any]) -> str | None:
    """The vhost that a document of a single vhost was exported from, where it says so: its objects name none."""
    name = document.get("original_vhost_name")
    return name if document.get(FORMAT_KEY) == SINGLE_VHOST and isinstance(name, str) else None


def _objects(source: Source, content: Any, here: str) -> Iterator[Mapping[str, Any]]:
    if content is None:
        return
    if not isinstance(content, list):
        raise refusal([source.problem(InvalidInput("expected an array"), here)])
    for number, raw in enumerate(content):
        if not isinstance(raw, Mapping):
            raise refusal([source.problem(InvalidInput("expected an object"), f"{here}[{number}]")])
        yield raw


def _read(section: str, raw: Mapping[str, Any], path: str, *, access: bool) -> SourceObject:
    vhost = raw.get("vhost")
    stated = vhost if isinstance(vhost, str) else None
    item = SourceObject(_SECTIONS[section], _name(section, raw), path, stated, [(section, raw)])
    if section in _ACCESS:
        for key in raw.keys() - _OF_ACCESS[section]:
            item.unknown(key)
        if not access:
            item.lost(_NO_ACCESS, hint="--access carries them over, passwords as RabbitMQ hashed them")
        return item
    for one in check_object(section, raw, path):
        key = one.path.removeprefix(f"{path}.")
        if isinstance(one, Ignored):
            item.idle(key, one.reason)
        elif not key.startswith(("definition.", "value.")):
            item.unknown(key, f"{one.message}: nothing comes of it")
    match section:
        case "exchanges":
            _exchange(raw, item)
        case "queues":
            _queue(raw, item)
        case "policies":
            if _reaches(raw, item, "apply-to"):
                _limits(raw.get("definition"), item, "definition.", dashed=False)
        case "parameters":
            _parameter(raw, item)
        case "global_parameters":
            item.idle("value", "kept; nothing here reads it, unless it says how large filters may be")
    return item


def _name(section: str, raw: Mapping[str, Any]) -> str:
    """What people call the object: of a binding its ends and key."""
    match section:
        case "bindings":
            kind = "" if raw.get("destination_type", "queue") == "queue" else f"{raw.get('destination_type')} "
            return f"{raw.get('source')} -> {kind}{raw.get('destination')}, key {raw.get('routing_key', '')!r}"
        case "permissions":
            return f"of {raw.get('user')}"
        case "topic_permissions":
            return f"of {raw.get('user')} on {raw.get('exchange')}"
        case "parameters":
            return f"{raw.get('component')} {raw.get('name')}"
    return str(raw.get("name"))


def _exchange(raw: Mapping[str, Any], item: SourceObject) -> None:
    kind = raw.get("type")
    if isinstance(kind, str) and kind not in EXCHANGE_TYPES:
        item.lost(
            f"there is no exchange type {kind!r} here",
            "type",
            hint=_PLUGINS.get(kind, "types are " + ", ".join(sorted(EXCHANGE_TYPES))),
        )
        return
    _durable(raw, item)


def _queue(raw: Mapping[str, Any], item: SourceObject) -> None:
    _durable(raw, item)
    if raw.get("auto_delete") is True:
        item.differs("auto_delete", "nothing consumes here, so that the queue is not deleted with its last consumer")
    _limits(raw.get("arguments"), item, "arguments.", dashed=True)


def _durable(raw: Mapping[str, Any], item: SourceObject) -> None:
    if raw.get("durable") is False:
        item.differs("durable", "stays when the service is started again, as everything here does")


def _limits(stated: Any, item: SourceObject, prefix: str, *, dashed: bool) -> None:
    """What limits of queues say that is kept otherwise than in the broker."""
    kept_late, with_limits = (
        {argument(name) if dashed else name for name in names} for names in (_KEPT_LATE, _WITH_LIMITS)
    )
    bounds = {argument(name) if dashed else name for name in BOUNDS}
    overflow = stated.get(argument(OVERFLOW) if dashed else OVERFLOW) if isinstance(stated, Mapping) else None
    for key in stated if isinstance(stated, Mapping) else ():
        if key in bounds and overflow not in (None, DROP_HEAD):
            item.differs(f"{prefix}{key}", f"nothing bounds the length where overflow is {overflow!r}")
        elif key in kept_late:
            item.differs(f"{prefix}{key}", _LATE)
        elif key in with_limits:
            item.differs(f"{prefix}{key}", _REJECTED)


def _parameter(raw: Mapping[str, Any], item: SourceObject) -> None:
    component, value = raw.get("component"), raw.get("value")
    if component == OPERATOR_COMPONENT and isinstance(value, Mapping):
        if _reaches(value, item, "value.apply-to"):
            _limits(value.get("definition"), item, "value.definition.", dashed=False)
    elif isinstance(component, str) and component != LIMITS_KIND.removeprefix(PARAMETER_PREFIX):
        known = KNOWN.get(("parameter", component))
        if known is None or not known.effective:
            why = "no component here reads it" if known is None else known.meaning
            item.lost(why, "component", hint=_INSTEAD.get(component))


def _reaches(stated: Mapping[str, Any], item: SourceObject, key: str) -> bool:
    """Whether a policy may reach a queue here, where queues have no types: says so where it does not as there."""
    kind = stated.get("apply-to")
    if kind in ("quorum_queues", "streams"):
        item.lost(f"no queue here is one of {kind}", key, hint="apply it to queues, with a pattern of their names")
        return False
    if kind == "classic_queues":
        item.differs(
            key,
            "queues have no types here: it reaches those that were quorum queues or streams, too",
            hint="give it a pattern that only classic queues match",
        )
    return True


#: Components of parameters -> what does here what they do there.
_INSTEAD: Final[Mapping[str, str]] = {
    "shovel": "`bindery drain` takes messages from a RabbitMQ, `bindery forward` hands them on to Kafka",
    "federation-upstream": "`bindery drain` takes messages from the upstream",
    "federation-upstream-set": "`bindery drain` takes messages from the upstreams",
}
