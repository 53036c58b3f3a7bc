"""Filters of triggers of Knative Eventing as filter sets over CloudEvents SQL.

Source: "Triggers" and "New trigger filters" of the documentation of Knative Eventing, and the specification of
`Trigger` in its API (eventing.knative.dev/v1): `filter.attributes` (an empty value stands for any that is not empty,
a missing attribute never fits), and `filters`, which counts alone where both are stated. Its results are two-valued,
as groups of filter sets are: what is missing fits nothing, and so its negation fits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from bindery.router.errors import FilterError, InvalidInput
from bindery.router.filters import parse
from bindery.router.filters.cesql.printing import quoted
from bindery.router.filters.sets import parse_filter_set

CESQL: Final = "cloudevents:sql-filter"
ALL, ANY, NOT = "amqp:all-filter", "amqp:any-filter", "amqp:not-filter"
DIALECTS: Final = ("exact", "prefix", "suffix", "all", "any", "not", "cesql")
_NAME: Final = re.compile("[a-z][a-z0-9]*")
_KEYWORDS: Final = frozenset({"and", "or", "xor", "not", "like", "in", "exists", "true", "false"})
#: Older names that Knative takes for attributes; None where there is no such attribute.
_RENAMED: Final[Mapping[str, str | None]] = {
    "schemaurl": "dataschema",
    "datamediatype": None,
    "datacontentencoding": None,
}
_MAX_DEPTH: Final = 40
_WORD: Final = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|[()]|\w+", re.S)
_LOGIC: Final = frozenset({"AND", "OR", "XOR"})

#: A filter set's filter, or None: it lets everything pass.
Tree = Mapping[str, Any] | None


def filters_of(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The filter set of a trigger, empty where it lets everything pass.

    Raises InvalidInput, with the key, for what Knative refuses, or what cannot be said here.
    """
    stated = spec.get("filters")
    if stated not in (None, []):
        if not isinstance(stated, list):
            raise InvalidInput("expected a list", where="filters")
        tree = _group(ALL, list(_members(stated, "filters", 0, empty=True)))
    else:
        tree = _attributes(spec.get("filter"))
    if tree is None:
        return {}
    found = {"filter": dict(tree)}
    try:
        parse_filter_set(found)
    except FilterError as error:
        raise InvalidInput(f"the filter is refused: {error.message}", where="filters", hint=error.hint) from None
    return found


def _attributes(stated: Any) -> Tree:
    if stated in (None, {}):
        return None
    if not isinstance(stated, Mapping):
        raise InvalidInput("expected an object", where="filter")
    for key in stated:
        if key != "attributes":
            raise InvalidInput(f"Knative has no filter of {key!r}", where="filter", hint="write it under filters")
    attributes = stated["attributes"]
    if attributes in (None, {}):
        return None
    where = "filter.attributes"
    return _leaf(
        " AND ".join(
            f"{_attribute(name, where)} = {literal(value)}" if value else f"{_attribute(name, where)} <> ''"
            for name, value in _pairs(attributes, where)
        )
    )


def _leaf(text: str) -> Tree:
    return {"descriptor": CESQL, "value": text}


def _group(kind: str, members: list[Mapping[str, Any]]) -> Tree:
    if not members:
        return None
    return members[0] if len(members) == 1 else {"descriptor": kind, "value": members}


def _members(stated: list[Any], where: str, depth: int, *, empty: bool) -> Iterator[Mapping[str, Any]]:
    """The filters of a list, but those that state nothing, which Knative leaves out."""
    for number, one in enumerate(stated):
        tree = _filter(one, f"{where}[{number}]", depth + 1, empty=empty)
        if tree is not None:
            yield tree


def _filter(stated: Any, where: str, depth: int, *, empty: bool) -> Tree:
    """One filter; where nothing may be `empty`, one that lets everything pass is refused.

    What Knative makes of such a one in a negation depends on the order in which it tries filters.
    """
    if not isinstance(stated, Mapping):
        raise InvalidInput("expected an object", where=where)
    if depth > _MAX_DEPTH:
        raise InvalidInput(f"nested deeper than {_MAX_DEPTH} levels", where=where)
    unknown = next((key for key in stated if key not in DIALECTS), None)
    if unknown is not None:
        raise InvalidInput(f"no filter is called {unknown!r}", where=where, hint="filters: " + ", ".join(DIALECTS))
    said = [key for key, value in stated.items() if value not in (None, {}, [], "") or (key == "not" and value == {})]
    if len(said) > 1:
        raise InvalidInput(f"{said[0]} and {said[1]} in one filter", where=where, hint="put each into one of its own")
    tree = _one(said[0], stated[said[0]], f"{where}.{said[0]}", depth) if said else None
    if tree is None and not empty:
        raise InvalidInput("it lets everything pass, which means nothing here", where=where, hint="leave it out")
    return tree


def _one(kind: str, value: Any, where: str, depth: int) -> Tree:
    if kind in ("all", "any"):
        if not isinstance(value, list):
            raise InvalidInput("expected a list", where=where)
        return _group(ALL if kind == "all" else ANY, list(_members(value, where, depth, empty=False)))
    if kind == "not":
        return {"descriptor": NOT, "value": [_filter(value, where, depth + 1, empty=False)]}
    if kind == "cesql":
        if not isinstance(value, str):
            raise InvalidInput("expected a text", where=where)
        try:
            parse(value, "cesql")
        except FilterError as error:
            raise InvalidInput(f"it is refused: {error.message}", where=where, hint=error.hint) from None
        return _leaf(value)
    pairs = list(_pairs(value, where))
    if not all(text for _, text in pairs):
        return None  # Knative cannot make such a filter, and leaves it out
    test = _TESTS[kind]
    return _leaf(" AND ".join(test(_attribute(name, where), text) for name, text in pairs))


def _pairs(stated: Any, where: str) -> Iterator[tuple[str, str]]:
    if not isinstance(stated, Mapping):
        raise InvalidInput("expected an object", where=where)
    for name, value in stated.items():
        if not isinstance(value, str):
            raise InvalidInput(f"the value of {name} is no text", where=where, hint="write it in quotes")
        yield name, value


def _attribute(name: str, where: str) -> str:
    if not _NAME.fullmatch(name):
        hint = "a letter, then letters and digits, all in lower case"
        raise InvalidInput(f"{name!r} is no name of an attribute", where=where, hint=hint)
    renamed = _RENAMED.get(name, name)
    if renamed is None:
        raise InvalidInput(f"events have no attribute {name}", where=where, hint="datacontenttype is one")
    if renamed in _KEYWORDS:
        raise InvalidInput(f"{name} is a word of CloudEvents SQL", where=where, hint="call the extension otherwise")
    return renamed


# -- texts in CloudEvents SQL: a backslash escapes the quote alone, and in patterns the wildcards


def literal(text: str) -> str:
    """An expression that is a text; where backslashes cannot stand in a literal, one that joins its parts."""
    if "\\" not in text:
        return quoted(text)
    parts = [one for one in re.split(r"(\\+)", text) if one]
    written = [f"LEFT('{one} ', {len(one)})" if one[0] == "\\" else quoted(one) for one in parts]
    return written[0] if len(written) == 1 else f"CONCAT({', '.join(written)})"


def _exact(name: str, text: str) -> str:
    return f"{name} = {literal(text)}"


def _prefix(name: str, text: str) -> str:
    if "\\" in text:
        return f"LEFT({name}, {len(text)}) = {literal(text)}"
    return f"{name} LIKE {quoted(_escaped(text) + '%')}"


def _suffix(name: str, text: str) -> str:
    if "\\" in text:
        return f"RIGHT({name}, {len(text)}) = {literal(text)}"
    return f"{name} LIKE {quoted('%' + _escaped(text))}"


def _escaped(text: str) -> str:
    return re.sub("[%_]", r"\\\g<0>", text)


_TESTS: Final[Mapping[str, Callable[[str, str], str]]] = {"exact": _exact, "prefix": _prefix, "suffix": _suffix}


# -- what is to be said of filters


def statements(spec: Mapping[str, Any], *, wanted: bool = False) -> Iterator[tuple[str, Mapping[str, Any] | str]]:
    """Every test of a trigger, as (kind, attributes), those of CloudEvents SQL as (`cesql`, text).

    Those that are `wanted` are enough for an event to pass: the first of `any`, and none that is negated.
    """
    stated = spec.get("filters")
    if stated in (None, []):
        filter_ = spec.get("filter")
        attributes = filter_.get("attributes") if isinstance(filter_, Mapping) else None
        waiting: list[Any] = [{"exact": attributes}] if isinstance(attributes, Mapping) else []
    else:
        waiting = list(stated) if isinstance(stated, list) else []
    while waiting:
        one = waiting.pop(0)
        for kind, value in one.items() if isinstance(one, Mapping) else ():
            if kind in ("all", "any") and isinstance(value, list):
                waiting += value[:1] if kind == "any" and wanted else value
            elif kind == "not":
                waiting += [] if wanted else [value]
            elif (kind == "cesql" and isinstance(value, str)) or (kind in _TESTS and isinstance(value, Mapping)):
                yield kind, value


def mixes(text: str) -> bool:
    """Whether AND, OR and XOR stand beside each other in CloudEvents SQL without parentheses."""
    open_: list[set[str]] = [set()]
    for word in _WORD.findall(text):
        if word == "(":
            open_.append(set())
        elif word == ")" and len(open_) > 1:
            if len(open_.pop()) > 1:
                return True
        elif word.upper() in _LOGIC:
            open_[-1].add(word.upper())
    return any(len(found) > 1 for found in open_)
