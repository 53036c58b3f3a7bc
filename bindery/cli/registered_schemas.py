"""Schemas of a registry made to stand alone: what they refer to goes into them."""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from bindery.cli.registry import Registered
from bindery.cli.schema_files import compiled
from bindery.router.errors import InvalidInput
from bindery.router.filters.schemas.avro import MAX_LEVELS, PRIMITIVES, full_name


def standing_alone(one: Registered) -> Any:
    """A schema as `x-payload-schema` states it, with everything it refers to; raises InvalidInput."""
    return _avro(one) if one.format == "avro" else _protobuf(one)


def _protobuf(one: Registered) -> str:
    main = f"schema-{one.id}.proto"
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch).resolve()
        for name, text in {main: one.text, **dict(_imports(one))}.items():
            path = folder / name
            if not path.resolve().is_relative_to(folder) or path.resolve() == folder:
                raise InvalidInput(f"schema {one.id} imports {name!r}, which is no name of a file", where="--subject")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        return base64.b64encode(compiled(main, folder)).decode()


def _imports(one: Registered) -> Iterator[tuple[str, str]]:
    for name, referred in one.references:
        yield name, referred.text
        yield from _imports(referred)


def _avro(one: Registered) -> Any:
    """The schema with the types that it names put where they are named first (Avro knows no imports)."""
    inlining = _Inlining()
    for referred in _all(one):
        inlining.learn(_json(referred), "", 0)
    return inlining.settled(_json(one), "", 0)


def _all(one: Registered) -> Iterator[Registered]:
    for _, referred in one.references:
        yield from _all(referred)
        yield referred


def _json(one: Registered) -> Any:
    try:
        return one.text if one.text in PRIMITIVES else json.loads(one.text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"schema {one.id} is no JSON: {error}", where="--subject") from None


_NAMED: Final = ("record", "enum", "fixed")


class _Inlining:
    """Definitions by their full names, each with the namespace around it; and which of them stand in the schema."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[dict[str, Any], str]] = {}
        self._done: set[str] = set()

    def learn(self, raw: Any, namespace: str, level: int) -> None:
        """Remember the definitions in a schema."""
        _check_level(level)
        if isinstance(raw, list):
            for one in raw:
                self.learn(one, namespace, level + 1)
        elif isinstance(raw, dict) and raw.get("type") in _NAMED:
            full, within = full_name(raw, namespace, "")
            self._known.setdefault(full, (raw, namespace))
            for one in _fields(raw):
                self.learn(one.get("type"), within, level + 1)
        elif isinstance(raw, dict):
            self.learn(raw.get("items", raw.get("values")), namespace, level + 1)

    def settled(self, raw: Any, namespace: str, level: int) -> Any:
        """A schema in which every name is defined where it stands first."""
        _check_level(level)
        if isinstance(raw, str):
            known = self._known.keys() | self._done
            full = next((name for name in (f"{namespace}.{raw}", raw) if name in known), raw)
            if raw in PRIMITIVES or full in self._done or full not in self._known:
                return raw if raw in PRIMITIVES else full
            return self.settled(*self._known[full], level + 1)
        if isinstance(raw, list):
            return [self.settled(one, namespace, level + 1) for one in raw]
        kind = raw.get("type") if isinstance(raw, dict) else None
        if kind in ("array", "map"):
            inside = "items" if kind == "array" else "values"
            return raw | {inside: self.settled(raw.get(inside), namespace, level + 1)}
        if kind not in _NAMED:
            named = self.settled(kind, namespace, level + 1) if isinstance(kind, str) else None
            return raw if named in (None, kind) else named
        full, within = full_name(raw, namespace, "")
        if full in self._done:
            return full
        self._done.add(full)
        made = raw | {"name": full.rpartition(".")[2], "namespace": within}
        if kind == "record":
            made["fields"] = [one | {"type": self.settled(one.get("type"), within, level + 1)} for one in _fields(raw)]
        return made


def _fields(record: dict[str, Any]) -> list[dict[str, Any]]:
    fields = record.get("fields")
    return [one for one in fields if isinstance(one, dict)] if isinstance(fields, list) else []


def _check_level(level: int) -> None:
    if level > MAX_LEVELS:
        raise InvalidInput(f"a schema is nested deeper than {MAX_LEVELS} levels", where="--subject")
