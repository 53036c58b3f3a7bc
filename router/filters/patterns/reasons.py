"""Why a pattern has its result: the trace follows the element that decided."""

from __future__ import annotations

from bindery.router.filters import payload
from bindery.router.filters.ast import Node, Trouble
from bindery.router.filters.fields import DOCUMENT, read
from bindery.router.filters.patterns.evaluation import found
from bindery.router.filters.patterns.nodes import AnyElement
from bindery.router.filters.scalar import Context
from bindery.router.filters.spread import ELEMENTS, of_elements
from bindery.router.filters.trace import INSIDE, NOTHING, Because, Trace, reason
from bindery.router.filters.unparsable import Unparsable


def _deciding(node: AnyElement, context: Context) -> list[tuple[Node, Context]]:
    """The part at the first element that fits, else at the first."""
    ref = node.over.ref
    elements = found(context, ref)
    if isinstance(elements, Trouble) or not elements:
        return []
    inside = [context.at(ref, element) for element in elements]
    chosen = next((one for one in inside if one.value(node.part) is True), inside[0])
    return [(node.part, chosen)]


INSIDE[AnyElement] = _deciding


@reason(AnyElement)
def _any_element(node: AnyElement, trace: Trace, context: Context) -> Because:
    ref = node.over.ref
    elements = found(context, ref)
    if isinstance(elements, Trouble):
        return "trouble", _unreadable(node, context)
    if not elements:
        missing = f"the message has no {of_elements(ref)}" if ref.section == ELEMENTS else "the body has no value there"
        return "missing", missing
    if len(elements) > 1:
        return "", f"{'one' if trace.result is True else 'none'} of {len(elements)} elements"
    return NOTHING


def _unreadable(node: AnyElement, context: Context) -> str:
    try:
        payload.parsed(read(context.message, DOCUMENT), payload.referred(node.over.ref)[0])
    except Unparsable as reason:
        return str(reason)
    return ""
