"""How the nodes of patterns are written in normal forms and traces: readable, though no language parses them."""

from __future__ import annotations

from bindery.router.filters.patterns.nodes import AnyElement, InNetwork
from bindery.router.filters.patterns.operators import THERE
from bindery.router.filters.payload import PAYLOAD, referred
from bindery.router.filters.printer import ATOM, PREDICATE, Printer, literal_text, prints
from bindery.router.filters.sets.nodes import Accepts
from bindery.router.filters.spread import OBJECTS


@prints(AnyElement)
def _any_element(node: AnyElement, printer: Printer) -> tuple[str, int]:
    """Of simple values the condition on them; of objects the conditions behind the name that they stand under."""
    ref = node.over.ref
    if node.part == THERE:
        return f"{printer.field(ref)} EXISTS", PREDICATE
    if ref.section == PAYLOAD and referred(ref)[1][-1] == OBJECTS:
        return f"ANY {printer.field(ref)} ({printer.text(node.part)})", ATOM
    return printer.written(node.part)


@prints(InNetwork)
def _in_network(node: InNetwork, printer: Printer) -> tuple[str, int]:
    return f"{printer.text(node.operand, ATOM)} IN NETWORK {literal_text(node.network)}", PREDICATE


def _accepts(node: Accepts, printer: Printer) -> tuple[str, int]:
    """What patterns make of conditions that would be unknown for a null is written without more ado."""
    return printer.written(node.part)


for _grammar in ("pattern", "policy"):
    prints(Accepts, grammar=_grammar)(_accepts)
