"""The pages of the REST API, made from the service's OpenAPI document: one for each tag, and one of the objects."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from bindery.api.app import create_app
from bindery.api.settings import Settings

OBJECTS: Final = "objects"
_REFERENCE: Final = "#/components/schemas/"
_ORDER: Final = ("get", "put", "post", "delete")
#: Answers that nearly every operation has: the index says them once.
_COMMON: Final = ("400", "401", "403", "404", "412", "429", "503", "507")


@cache
def document() -> dict[str, Any]:
    """The OpenAPI document of a service with every part switched on."""
    with tempfile.TemporaryDirectory() as folder:
        app = create_app(Settings.configured(data=folder, docs=True, metrics="authenticated"))
        try:
            return app.openapi()
        finally:
            app.state.plane.close()


def titles() -> dict[str, str]:
    """Name of a page -> its title in the nav, in the order of the document."""
    return {"index": "All operations", **{tag: tag.capitalize() for tag in _by_tag()}, OBJECTS: "Objects"}


def pages() -> dict[str, str]:
    """Name of a page -> the page, in Markdown."""
    made = {"index": _index()}
    made |= {tag: _page(tag, operations) for tag, operations in _by_tag().items()}
    return {**made, OBJECTS: _objects()}


@cache
def _by_tag() -> dict[str, list[tuple[str, str, Mapping[str, Any]]]]:
    found: dict[str, list[tuple[str, str, Mapping[str, Any]]]] = {}
    for path, methods in document()["paths"].items():
        for method in sorted(methods, key=_ORDER.index):
            found.setdefault(methods[method]["tags"][0], []).append((method, path, methods[method]))
    return found


def _index() -> str:
    common = document()["paths"]["/api/queues/{vhost}/{name}"]["put"]["responses"]
    rows = [f"| {status} | {_cell(common[status].get('description', ''))} |" for status in _COMMON]
    lists = [
        f"## {tag.capitalize()}\n\n| | | |\n|---|---|---|\n"
        + "\n".join(
            f"| {_badge(method)} | [`{path}`]({tag}.md#{_anchor(one)}) | {_cell(one.get('summary', ''))} |"
            for method, path, one in operations
        )
        for tag, operations in _by_tag().items()
    ]
    return "\n\n".join(
        (
            f"# REST API reference\n\n{document()['info']['description'].strip()}",
            "This is the API of this version, from the OpenAPI document that the service has at `/openapi.json`.\n"
            "[The REST control plane](../../rest.md) says how it behaves, and where it differs from RabbitMQ's.",
            "Nearly every operation may answer:\n\n| status | |\n|---|---|\n" + "\n".join(rows),
            *lists,
        )
    )


def _page(tag: str, operations: list[tuple[str, str, Mapping[str, Any]]]) -> str:
    head = f"# {tag.capitalize()}\n\nOperations of the [REST API](index.md). Path segments are percent-encoded."
    return "\n\n".join((head, *(_operation(*one) for one in operations))) + "\n"


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> str:
    parts = [
        f"## {_text(operation.get('summary', path))} {{#{_anchor(operation)}}}",
        f"{_badge(method)} `{path}`",
        _text(operation.get("description", "")),
        "" if operation.get("security") else "Asked without credentials.",
        *_parameters(operation.get("parameters", ())),
        *_bodies(operation.get("requestBody", {})),
        _answers(operation["responses"]),
    ]
    return "\n\n".join(filter(None, parts))


def _badge(method: str) -> str:
    return f"**{method.upper()}**{{ .method .{method} }}"


def _parameters(parameters: Any) -> Iterator[str]:
    if parameters:
        rows = (
            (
                f"`{one['name']}`{' (required)' if one.get('required') and one['in'] != 'path' else ''}",
                one["in"],
                _kind(one["schema"]).removesuffix(" or null"),
                _cell(one.get("description") or one["schema"].get("description", "")),
            )
            for one in parameters
        )
        yield "| parameter | in | type | |\n|---|---|---|---|\n" + "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _bodies(body: Mapping[str, Any]) -> Iterator[str]:
    for media_type, content in body.get("content", {}).items():
        schema = content.get("schema", {})
        yield f"Body: `{media_type}`{'' if schema.get('properties') else f', {_kind(schema)}'}"
        if schema.get("properties"):
            yield _fields(schema)
        if "example" in content:
            yield f"Such as `{_one_line(content['example'])}`"


def _one_line(example: Any) -> str:
    text = example if isinstance(example, str) else json.dumps(example, ensure_ascii=False)
    return text.strip().replace("\n", " ⏎ ").replace("`", "'")


def _answers(responses: Mapping[str, Any]) -> str:
    rows = [
        f"| {status} | {_cell(_said(answer))} | "
        f"{', '.join(_kind(content.get('schema', {})) for content in answer.get('content', {}).values())} |"
        for status, answer in sorted(responses.items())
        if status not in _COMMON
    ]
    return "| answer | | |\n|---|---|---|\n" + "\n".join(rows) if rows else ""


def _said(answer: Mapping[str, Any]) -> str:
    said = str(answer.get("description", ""))
    return "" if said == "Successful Response" else said


def _objects() -> str:
    head = "# Objects\n\nObjects that bodies and answers of the [REST API](index.md) consist of."
    sections = []
    for name, schema in sorted(document()["components"]["schemas"].items()):
        parts = [f"## {name} {{#{_slug(name)}}}", _text(schema.get("description", ""))]
        parts.append(_fields(schema) if schema.get("properties") else _kind(schema).capitalize() + ".")
        sections.append("\n\n".join(filter(None, parts)))
    return "\n\n".join((head, *sections)) + "\n"


def _fields(schema: Mapping[str, Any]) -> str:
    required = schema.get("required", ())
    return "| field | type | |\n|---|---|---|\n" + "\n".join(
        f"| `{name}`{' (required)' if name in required else ''} | {_kind(inner)} "
        f"| {_cell(str(inner.get('description', '')))} |"
        for name, inner in schema["properties"].items()
    )


def _kind(schema: Any) -> str:
    """A schema in a few words, with links to the objects that it names."""
    match schema:
        case {"$ref": str(reference)}:
            name = reference.removeprefix(_REFERENCE)
            return f"[{name}]({OBJECTS}.md#{_slug(name)})"
        case {"anyOf": list(choices)} | {"oneOf": list(choices)}:
            return " or ".join(dict.fromkeys(_kind(choice) for choice in choices))
        case {"enum": list(values)}:
            return ", ".join(f"`{json.dumps(value)}`" for value in values)
        case {"const": value}:
            return f"`{json.dumps(value)}`"
        case {"type": "array", "items": items}:
            return f"list of {_kind(items)}"
        case {"type": "object", "additionalProperties": dict(inner)} if inner:
            return f"object of {_kind(inner)}"
        case {"type": list(names)}:
            return " or ".join(names)
        case {"type": str(name)}:
            return name
    return "any"


def _anchor(operation: Mapping[str, Any]) -> str:
    return _slug(operation["operationId"])


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _text(said: str) -> str:
    """Words of a docstring as Markdown: its code stays, its other signs are literal."""
    parts = re.split(r"(`[^`]*`)", said.strip())
    return "".join(one if one.startswith("`") else re.sub(r"([*<_\[])", r"\\\1", one) for one in parts)


def _cell(said: str) -> str:
    return _text(" ".join(said.split())).replace("|", r"\|")
