"""Filters of objects that cannot be declared: what is wrong with them is told beside what keeps the object away."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from bindery.router.declarations import at, binding_filters, divert_filter, queue_filter, transformation
from bindery.router.errors import BinderyError
from bindery.router.filters.payload import FORMATS
from bindery.router.filters.sets import FilterSetLimits
from bindery.router.links import FILTER_ARGUMENTS
from bindery.router.model import QUEUE_FILTER, TRANSFORM, Binding, Divert, Exchange, Object, Queue
from bindery.router.model.objects import PAYLOAD_ARGUMENT
from bindery.router.policies import Policies
from bindery.router.values import Table


def filter_errors(
    item: Object, limits: FilterSetLimits, source: Exchange | None, policies: Policies
) -> Iterator[tuple[str, BinderyError]]:
    """What is wrong with the filters of an object, each with its path in it; policies say what bodies are, too.

    `source` is the exchange that a binding or divert is from, if that is known: it says what bodies are. Without it,
    only what is wrong with bodies of every format is told.
    """
    match item:
        case Queue():
            # what a policy says of its bodies may come later in the same document
            holder = item if PAYLOAD_ARGUMENT in item.arguments else None
            found = _at_some(partial(queue_filter, item), limits, holder, policies)
            if found is not None:
                yield f"arguments.{QUEUE_FILTER}", found
        case Binding():
            for name in FILTER_ARGUMENTS:
                alone = replace(item, arguments=Table({key: v for key, v in item.arguments.items() if key == name}))
                found = _at_some(partial(_of_binding, alone), limits, source, policies)
                if found is not None:
                    yield f"arguments.{name}", found
            if TRANSFORM in item.arguments:
                found = _at_some(partial(transformation, item), limits, source, policies)
                if found is not None:
                    yield f"arguments.{TRANSFORM}", found
        case Divert():
            found = _at_some(partial(divert_filter, item), limits, source, policies)
            if found is not None:
                yield "filter", found
            if item.transform:
                found = _at_some(partial(transformation, item), limits, source, policies)
                if found is not None:
                    yield "transform", found
        case _:
            return


def _at_some(
    read: Callable[[FilterSetLimits], object],
    limits: FilterSetLimits,
    holder: Exchange | Queue | None,
    policies: Policies,
) -> BinderyError | None:
    """The error of a filter where it stands; without that, None when there is a place at which it has none."""
    holders = [holder]
    if holder is None:
        holders += [Exchange("", "", "direct", arguments=Table({PAYLOAD_ARGUMENT: name})) for name in FORMATS]
    errors = [_error(read, at(limits, holder, policies)) for holder in holders]
    return None if None in errors else errors[0]


def _of_binding(binding: Binding, limits: FilterSetLimits) -> object:
    return binding_filters(binding, owner=None, limits=limits)


def _error(read: Callable[[FilterSetLimits], object], limits: FilterSetLimits) -> BinderyError | None:
    try:
        read(limits)
    except BinderyError as error:
        return error
    return None
