"""The calls recorded against a real broker, replayed in order: same status, same shape, same bodies.

The recording is no part of the project: `BINDERY_RECORDED_CALLS` names it, or it lies in
`../shared/design` beside the checkout. `DEVIATIONS` is the list in docs/rest.md.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.service.conftest import Server
from tests.service.http import Answer

pytestmark = pytest.mark.service

_BESIDE = Path(__file__).parents[3] / "shared" / "design" / "management_api_recorded.json"
RECORDING = Path(os.environ.get("BINDERY_RECORDED_CALLS", _BESIDE))

#: Number of a call -> status and reason why ours differs. A broker's 500 is 400 everywhere.
DEVIATIONS: dict[int, tuple[int, str]] = {
    93: (201, "a null binding argument is a void argument"),
    177: (400, "conflicts in a definitions import are refused"),
    185: (200, "a number as routing key is its text, so that its binding has an address"),
    188: (404, "routing_key null is the empty key"),
}
#: Calls whose bodies differ though their shape does not -> why.
_NO_TRACE = "there is no amq.rabbitmq.trace exchange"
_BODIES = {
    9: "the name of the cluster is its own",
    **dict.fromkeys((56, 57, 59, 61, 66, 67, 69, 70), _NO_TRACE),
    **dict.fromkeys((105, 106, 108), "the binding with the void argument exists"),
    167: "the document says more, in another order",
}


def differences(shape: Any, found: Any, where: str = "body") -> Iterator[str]:
    """Where a JSON value does not have a recorded shape; members that the broker lacks are no difference."""
    match shape:
        case {"any of": alternatives}:
            if all(list(differences(one, found, where)) for one in alternatives):
                yield f"{where}: {found!r} has none of the shapes"
        case dict():
            if not isinstance(found, dict):
                yield f"{where}: {found!r} is no object"
                return
            for name, inner in shape.items():
                key = name.removesuffix("?")
                if "@" in key:  # a node's name
                    key = next(iter(found), key)
                if key in found:
                    yield from differences(inner, found[key], f"{where}.{key}")
                elif not name.endswith("?"):
                    yield f"{where}: no {key}"
        case list():
            if not isinstance(found, list):
                yield f"{where}: {found!r} is no array"
                return
            for number, item in enumerate(found if len(shape) == 1 else []):
                yield from differences(shape[0], item, f"{where}[{number}]")
        case _:
            if _type_name(found) != shape:
                yield f"{where}: {found!r} is no {shape}"


def _type_name(value: Any) -> str:
    names = {bool: "boolean", int: "number", float: "number", str: "string", type(None): "null"}
    return names.get(type(value), "other")


def replay(server: Server, calls: list[dict[str, Any]]) -> Iterator[tuple[int, dict[str, Any], Answer]]:
    for number, call in enumerate(calls):
        client = server.client()
        if "auth" in call:
            client = server.client(None) if call["auth"] is None else server.client(password="wrong")
        raw = call["request_raw"].encode() if "request_raw" in call else None
        path = call["path"].removeprefix("/api")
        yield number, call, client.call(call["method"], path, call.get("request"), raw=raw)


@pytest.mark.skipif(not RECORDING.exists(), reason=f"no recording at {RECORDING}; set BINDERY_RECORDED_CALLS")
def test_recorded_calls(tmp_path: Path) -> None:
    calls = json.loads(RECORDING.read_text())
    server = Server(tmp_path / "data").start()
    problems: list[str] = []
    try:
        for number, call, answer in replay(server, calls):
            status = 400 if call["status"] == 500 else call["status"]
            name = f"{number} {call['method']} {call['path'][:80]}"
            if number in DEVIATIONS:
                if answer.status != DEVIATIONS[number][0]:
                    problems.append(f"{name}: {answer.status}, the deviation says {DEVIATIONS[number]}")
                continue
            if answer.status != status:
                problems.append(f"{name}: {answer.status} instead of {status}: {answer.raw[:200]!r}")
                continue
            for header, value in call["headers"].items():
                if answer.headers.get(header) != value and not _hashed(header, value):
                    problems.append(f"{name}: {header} is {answer.headers.get(header)!r} instead of {value!r}")
            if call.get("shape") is not None:
                problems += [f"{name}: {found}" for found in differences(call["shape"], answer.json)]
            elif call["method"] != "HEAD" and call["status"] != 500 and answer.raw:
                problems.append(f"{name}: a body where the broker sends none")
            if "body" in call and number not in _BODIES and answer.json != call["body"]:
                problems.append(f"{name}: BODY {str(answer.json)[:600]} instead of {str(call['body'])[:600]}")
    finally:
        server.stop()
    assert not problems, f"{len(problems)} differences:\n" + "\n".join(problems)


def _hashed(header: str, value: str) -> bool:
    """Whether a Location ends with the broker's own hash of arguments."""
    return header == "location" and len(value.rpartition("~")[2]) == 6
