"""`/docs`: the OpenAPI document as a page to read.

It is made here, runs no script and loads nothing: its policy forbids both, so that it can be read in browsers that
remember an administrator's password, and without a way out.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, Final

_STYLE: Final = """
body{font:15px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}
h2{margin-top:2.5rem;border-bottom:1px solid #ccc}
code,pre{font:13px/1.45 ui-monospace,monospace}
pre{background:#f4f4f4;padding:.6rem;overflow-x:auto}
details{border:1px solid #ddd;border-radius:4px;margin:.4rem 0;padding:.3rem .7rem}
details:target{border-color:#06c}
summary{cursor:pointer}
summary b{display:inline-block;min-width:4.2rem}
table{border-collapse:collapse;width:100%}
td,th{border-top:1px solid #ddd;padding:.25rem .5rem;text-align:left;vertical-align:top}
nav a{margin-right:.9rem}
@media (prefers-color-scheme:dark){body{color:#ddd;background:#181818}pre{background:#242424}a{color:#8bf}}
"""
_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
#: What a browser may do with the page: apply its style, and nothing else.
HEADERS: Final = {
    "content-security-policy": f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}
_REFERENCE: Final = "#/components/schemas/"


def render(document: Mapping[str, Any]) -> str:
    """The page of an OpenAPI document: operations by tag, and the objects of bodies."""
    by_tag: dict[str, list[tuple[str, str, Mapping[str, Any]]]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            by_tag.setdefault(operation["tags"][0], []).append((method, path, operation))
    title = escape(f"{document['info']['title']} {document['info']['version']}")
    parts = [
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
        f"</head><body><h1>{title}</h1><p>{escape(document['info'].get('description', ''))}</p>"
        '<p>For programs: <a href="openapi.json">openapi.json</a></p><nav>'
    ]
    parts += [f'<a href="#tag-{escape(tag)}">{escape(tag)}</a>' for tag in by_tag]
    parts.append('<a href="#schemas">objects</a></nav>')
    for tag, operations in by_tag.items():
        parts.append(f'<h2 id="tag-{escape(tag)}">{escape(tag)}</h2>')
        parts += [_operation(method, path, operation) for method, path, operation in operations]
    parts.append('<h2 id="schemas">objects</h2>')
    parts += [_object(name, schema) for name, schema in sorted(document["components"]["schemas"].items())]
    return "".join((*parts, "</body></html>"))


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> str:
    return "".join(
        (
            f'<details id="{escape(operation["operationId"])}"><summary><b>{method.upper()}</b> ',
            f"<code>{escape(path)}</code> {escape(operation.get('summary', ''))}</summary>",
            f"<p>{escape(operation.get('description', ''))}</p>",
            "" if operation.get("security") else "<p>Asked without credentials.</p>",
            *_parameters(operation.get("parameters", ())),
            *_contents("body", operation.get("requestBody", {}).get("content", {})),
            "<table><tr><th>status<th>answer<th>",
            *(
                f"<tr><td>{escape(status)}<td>{escape(answer.get('description', ''))}<td>"
                + ", ".join(_kind(content.get("schema", {})) for content in answer.get("content", {}).values())
                for status, answer in sorted(operation["responses"].items())
            ),
            "</table></details>",
        )
    )


def _parameters(parameters: Any) -> Iterator[str]:
    if parameters:
        yield "<table><tr><th>parameter<th>in<th>type<th>"
        for one in parameters:
            said = one.get("description") or one["schema"].get("description", "")
            name = f"<code>{escape(one['name'])}</code>{' *' if one.get('required') else ''}"
            yield f"<tr><td>{name}<td>{escape(one['in'])}<td>{_kind(one['schema'])}<td>{escape(said)}"
        yield "</table>"


def _contents(what: str, contents: Mapping[str, Any]) -> Iterator[str]:
    for media_type, content in contents.items():
        yield f"<p>{what}: <code>{escape(media_type)}</code> {_kind(content.get('schema', {}))}</p>"
        if "example" in content:
            example = content["example"]
            text = example if isinstance(example, str) else json.dumps(example, indent=2, ensure_ascii=False)
            yield f"<pre>{escape(text)}</pre>"


def _object(name: str, schema: Mapping[str, Any]) -> str:
    fields = schema.get("properties", {})
    rows = (
        f"<tr><td><code>{escape(field)}</code><td>{_kind(inner)}<td>{escape(str(inner.get('description', '')))}"
        for field, inner in fields.items()
    )
    head = f'<details id="schema-{escape(name)}"><summary><code>{escape(name)}</code></summary>'
    kind = "" if fields else f"<p>{_kind(schema)}</p>"
    return f"{head}<p>{escape(schema.get('description', ''))}</p>{kind}<table>{''.join(rows)}</table></details>"


def _kind(schema: Any) -> str:
    """A schema in a few words, with links to the objects that it names."""
    match schema:
        case {"$ref": str(reference)}:
            name = escape(reference.removeprefix(_REFERENCE))
            return f'<a href="#schema-{name}">{name}</a>'
        case {"anyOf": list(choices)} | {"oneOf": list(choices)}:
            return " or ".join(_kind(choice) for choice in choices)
        case {"enum": list(values)}:
            return ", ".join(f"<code>{escape(json.dumps(value))}</code>" for value in values)
        case {"const": value}:
            return f"<code>{escape(json.dumps(value))}</code>"
        case {"type": "array", "items": items}:
            return f"list of {_kind(items)}"
        case {"type": "object", "additionalProperties": dict(inner)} if inner:
            return f"object of {_kind(inner)}"
        case {"type": str(name)}:
            return escape(name)
    return "any"
