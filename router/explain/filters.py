"""Why a filter is not true: the smallest sub-expressions that decided it, with the values that they read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from bindery.router.declarations import binding_filters, queue_filter
from bindery.router.explain.near import described, shown, type_name
from bindery.router.explain.record import Culprit, CulpritKind, FilterVerdict, Read
from bindery.router.filters import Filter
from bindery.router.filters import parse as parse_filter
from bindery.router.filters.ast import And, Between, Compare, Field, In, Like, Node, Not, Or, Trouble, walk
from bindery.router.filters.dialect import DIALECTS, JMS
from bindery.router.filters.printer import Printer
from bindery.router.filters.scalar import Context, Result
from bindery.router.filters.sets.nodes import Accepts
from bindery.router.message import Message
from bindery.router.model import (
    FILTERS_ARGUMENT,
    OWNER_CONNECTION,
    QUEUE_FILTER,
    SELECTOR_ARGUMENT,
    Binding,
    Divert,
    Queue,
    Topology,
)
from bindery.router.values import Timestamp, Value, encode

#: Culprits that one filter names.
LISTED: Final = 5


class Judge:
    """Judges the filters that one message met, with the reference evaluator."""

    def __init__(self, message: Message, clock_ms: int) -> None:
        self._message = message
        self._clock_ms = clock_ms

    def binding(self, topology: Topology, binding: Binding) -> tuple[FilterVerdict, ...]:
        """The filters of a binding, in the order of their arguments."""
        owner = None
        if binding.destination_type == "queue":
            queue = topology.queues.get((binding.vhost, binding.destination))
            owner = None if queue is None else queue.arguments.get(OWNER_CONNECTION)
        stated = [name for name in (SELECTOR_ARGUMENT, FILTERS_ARGUMENT) if name in binding.arguments]
        filters = binding_filters(binding, owner=owner if isinstance(owner, str) else None) if stated else ()
        return tuple(self.verdict(item, name) for item, name in zip(filters, stated, strict=True))

    def divert(self, divert: Divert) -> tuple[FilterVerdict, ...]:
        """The filter of a divert; none when it is blank."""
        if not divert.filter.strip():
            return ()
        return (self.verdict(parse_filter(divert.filter, "artemis"), "filter"),)

    def queue(self, queue: Queue) -> tuple[FilterVerdict, ...]:
        """The filter of a queue; none when it has none."""
        found = queue_filter(queue)
        return () if found is None else (self.verdict(found, QUEUE_FILTER),)

    def verdict(self, filter: Filter, argument: str) -> FilterVerdict:  # what it is
        """One filter's result and, unless it is true, what decided it."""
        context = Context(self._message, self._clock_ms)
        result = _truth(context.value(filter.expression))
        culprits: tuple[Culprit, ...] = ()
        if result is not True:
            blamed = dict.fromkeys(_blamed(filter.expression, context, True))
            printer = Printer(DIALECTS.get(filter.dialect, JMS))
            culprits = tuple(self._culprit(node, context, printer) for node in list(blamed)[:LISTED])
        return FilterVerdict(argument, filter.dialect, filter.text, result, culprits)

    def _culprit(self, node: Node, context: Context, printer: Printer) -> Culprit:
        result = context.value(node)
        fields = list(dict.fromkeys(item for item in walk(node) if isinstance(item, Field)))
        values = {field: _plain(context.value(field)) for field in fields}
        reads = tuple(
            Read(printer.field(field.ref), encode(value), type_name(value)) for field, value in values.items()
        )
        kind = _kind(node, result, list(values.values()), context)
        text = printer.text(node)
        return Culprit(text, _truth(result), kind, _message(text, kind, reads, list(values.values())), reads)


def _blamed(node: Node, context: Context, wanted: bool) -> Iterator[Node]:
    """The sub-conditions that would have to change for the condition to be `wanted`."""
    match node:
        case And(parts) | Or(parts):
            conjunctive = isinstance(node, And) is wanted
            failing = [part for part in parts if _truth(context.value(part)) is not wanted]
            if conjunctive:
                # what is plainly wrong says more than what is only unknown
                wrong = [part for part in failing if _truth(context.value(part)) is not None]
                failing = wrong or failing
            for part in failing:
                yield from _blamed(part, context, wanted)
            if not parts:
                yield node
        case Not(part):
            yield from _blamed(part, context, not wanted)
        case Accepts(part) if wanted or _truth(context.value(part)) is True:
            yield from _blamed(part, context, wanted)
        case _:
            yield node


def _truth(result: Result) -> bool | None:
    return result if isinstance(result, bool) else None


def _plain(result: Result) -> Value:
    return None if isinstance(result, Trouble) else result


def _kind(node: Node, result: Result, values: Sequence[Value], context: Context) -> CulpritKind:
    if result is True:
        return "true"
    if result is False:
        return "type" if _unlike(node, context) else "false"
    return "missing" if any(value is None for value in values) else "trouble"


def _unlike(node: Node, context: Context) -> bool:
    """Whether a comparison is false because its operands are of unlike families (docs/filters.md)."""
    match node:
        case Compare(_, left, right):
            operands = [left, right]
        case Between(operand, low, _) | In(operand, (low, *_)) | Like(operand, low):
            operands = [operand, low]
        case _:
            return False
    families = {_family(context.value(operand)) for operand in operands}
    return len(families) > 1


def _family(result: Result) -> type:
    return float if isinstance(result, int | Timestamp) and not isinstance(result, bool) else type(result)


def _message(text: str, kind: CulpritKind, reads: Sequence[Read], values: Sequence[Value]) -> str:
    absent = [read.name for read in reads if read.type is None]
    held = [f"{read.name} is {shown(value)}" for read, value in zip(reads, values, strict=True) if value is not None]
    match kind:
        case "missing":
            verb = "is" if len(absent) == 1 else "are"
            return f"{text} is unknown because {' and '.join(absent)} {verb} missing"
        case "type":
            typed = [f"{r.name} is {described(v)}" for r, v in zip(reads, values, strict=True) if v is not None]
            return f"{text} is false because unlike types are never equal: {' and '.join(typed)}"
        case "trouble":
            return f"{text} is unknown because it cannot be computed" + (f": {' and '.join(held)}" if held else "")
        case _:
            return f"{text} is {kind}" + (f": {' and '.join(held)}" if held else "")
