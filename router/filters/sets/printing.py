"""How the nodes of filter sets are written in normal forms and traces: readable, though no language parses them."""

from __future__ import annotations

from bindery.router.filters.ast import Literal, Node
from bindery.router.filters.printer import ATOM, PREDICATE, Printer, literal_text, prints
from bindery.router.filters.sets.modifiers import MODIFIERS
from bindery.router.filters.sets.nodes import (
    Accepts,
    Equals,
    NestedMatches,
    Present,
    StartsWith,
    TextForm,
    TopicMatches,
)


@prints(Equals)
def _equals(node: Equals, printer: Printer) -> tuple[str, int]:
    if isinstance(node.field, TextForm):
        return _modified(node.field, node.reference, printer, partial=False)
    return f"{printer.text(node.field, ATOM)} = {printer.text(node.reference, ATOM)}", PREDICATE


@prints(Present)
def _present(node: Present, printer: Printer) -> tuple[str, int]:
    return f"{printer.text(node.field, ATOM)} IS PRESENT", PREDICATE


@prints(TextForm)
def _text_form(node: TextForm, printer: Printer) -> tuple[str, int]:
    text = printer.text(node.field, ATOM)
    for form in node.forms:
        text = f"{form.upper()}({text})"
    return text, ATOM


@prints(StartsWith)
def _starts_with(node: StartsWith, printer: Printer) -> tuple[str, int]:
    return _modified(node.field, node.reference, printer, partial=True)


def _modified(field: Node, reference: Node, printer: Printer, *, partial: bool) -> tuple[str, int]:
    """The reference with its modifier, as the filter set states it."""
    forms = field.forms if isinstance(field, TextForm) else ()
    prefix = next(m.prefix for m in MODIFIERS.values() if (m.forms, m.partial) == (forms, partial))
    text = str(reference.value) if isinstance(reference, Literal) else printer.text(reference)
    stated = literal_text(prefix + (text[::-1] if "reversed" in forms else text))
    inner = field.field if isinstance(field, TextForm) else field
    return f"{printer.text(inner, ATOM)} MATCHES {stated}", PREDICATE


@prints(NestedMatches)
def _nested_matches(node: NestedMatches, printer: Printer) -> tuple[str, int]:
    return f"{printer.text(node.field, ATOM)} MATCHES {printer.text(node.reference, ATOM)}", PREDICATE


@prints(TopicMatches)
def _topic_matches(node: TopicMatches, printer: Printer) -> tuple[str, int]:
    return f"{printer.text(node.field, ATOM)} MATCHES TOPIC {printer.text(node.pattern, ATOM)}", PREDICATE


@prints(Accepts)
def _accepts(node: Accepts, printer: Printer) -> tuple[str, int]:
    return f"ACCEPTS({printer.text(node.part)})", ATOM
