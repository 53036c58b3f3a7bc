"""A message as people paste it: in the JSON form of the record, or as RabbitMQ's `publish` takes it.

The second is told by its `payload`. Keys that neither form has are refused, with their place in the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from bindery.api.amqp import PROPERTIES, publish_record, read_payload
from bindery.api.auth import DEFAULT_EXCHANGE, Identity
from bindery.api.errors import Refusal, bad_request
from bindery.router.documents import Source, read_source
from bindery.router.errors import DefinitionsRefused, InvalidInput, InvalidRecord
from bindery.router.message import Message
from bindery.router.spelling import did_you_mean, nearest

#: What errors call the text.
_NAME: Final = "message"
#: Keys of a body for `publish`, and keys in which clients repeat what these say.
_PUBLISHED: Final = ("exchange", "routing_key", "properties", "payload", "payload_encoding", "reject_unroutable")
_BESIDE: Final = ("name", "vhost", "headers", "props", "delivery_mode")


def pasted(text: str, user: Identity) -> Message:
    """The message of a text; raises Refusal with line and column of what is wrong."""
    try:
        source = read_source(_NAME, text.encode("utf-8", "surrogatepass"))
    except DefinitionsRefused as error:
        raise _refusal(error.problems[0]) from None
    value = source.value
    if not source.is_json:
        raise bad_request("a message is a JSON object: {…}")
    try:
        return _published(value, user) if "payload" in value else Message.from_json(value)
    except (InvalidRecord, InvalidInput) as error:
        raise _refusal(_problem(source, error)) from None


def _published(value: Mapping[str, Any], user: Identity) -> Message:
    _check_keys("", value, _PUBLISHED, (*_PUBLISHED, *_BESIDE))
    properties = value.get("properties", {})
    if not isinstance(properties, Mapping):
        raise InvalidInput("properties is an object", where="properties")
    _check_keys("properties", properties, PROPERTIES, PROPERTIES)
    stated = {}
    for key in ("exchange", "name", "routing_key"):
        stated[key] = value.get(key, "")
        if not isinstance(stated[key], str):
            raise InvalidInput(f"{key} is no string", where=key)
    exchange = stated["exchange"] or stated["name"]
    return publish_record(
        exchange="" if exchange == DEFAULT_EXCHANGE else exchange,
        routing_key=stated["routing_key"],
        payload=read_payload(value["payload"], value.get("payload_encoding", "string")),
        properties=properties,
        user=user.name,
        reject_unroutable=value.get("reject_unroutable") is True,
    )


def _check_keys(path: str, value: Mapping[str, Any], known: Iterable[str], accepted: Iterable[str]) -> None:
    for key in value:
        if key not in accepted:
            hint = did_you_mean(nearest(key, known), f"known keys: {', '.join(known)}")
            where = f"{path}.{key}" if path else key
            raise InvalidInput(f"unknown key {key!r}", where=where, hint=hint)


def _problem(source: Source, error: InvalidInput) -> dict[str, Any]:
    return source.problem(error, error.where or "", key=error.message.startswith("unknown key"))


def _refusal(problem: Mapping[str, Any]) -> Refusal:
    where = f"line {problem['line']}, column {problem['column']}"
    hint = f" ({problem['hint']})" if problem.get("hint") else ""
    path = f"{problem['path']}: " if problem.get("path") else ""
    return bad_request(f"{where}: {path}{problem['message']}{hint}", place=dict(problem))
