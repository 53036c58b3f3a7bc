"""How deviations are written: as what the filter says, in parentheses wherever they stand in something else."""

from __future__ import annotations

from bindery.router.filters.deviations.nodes import Flag, InTurn, OneOf, OnText, Same
from bindery.router.filters.printer import AND, NOT, OR, SUM, Printer, prints

Written = tuple[str, int]


@prints(Same)
def _same(node: Same, printer: Printer) -> Written:
    return f"{printer.text(node.left, SUM)} = {printer.text(node.right, SUM)}", OR


@prints(OneOf)
def _one_of(node: OneOf, printer: Printer) -> Written:
    members = ", ".join(printer.text(item, SUM) for item in node.members)
    return f"{printer.text(node.operand, SUM)} IN ({members})", OR


@prints(InTurn)
def _in_turn(node: InTurn, printer: Printer) -> Written:
    if node.conjunction:
        return " AND ".join(printer.text(part, NOT) for part in node.parts), AND
    return " OR ".join(printer.text(part, AND) for part in node.parts), OR


@prints(OnText)
def _on_text(node: OnText, printer: Printer) -> Written:
    return printer.text(node.test), OR


@prints(Flag)
def _flag(node: Flag, printer: Printer) -> Written:
    return printer.written(node.operand)
