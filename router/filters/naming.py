"""What each filter language calls a field of a message, for whoever completes what is written."""

from __future__ import annotations

from bindery.router.columns import Ref
from bindery.router.errors import FilterError
from bindery.router.filters.ast import Field, walk
from bindery.router.filters.dialect import DIALECTS
from bindery.router.filters.fields import in_any_case
from bindery.router.filters.filter import parse
from bindery.router.filters.printer import Printer
from bindery.router.filters.spread import of_elements


def name_in(dialect: str, ref: Ref) -> str | None:
    """How a filter of that language names the field; None where no text of it does.

    >>> name_in("amqp-sql", Ref("application_properties", "two words"))
    '"two words"'
    """
    written = Printer(dialect).field(ref)
    same = {ref, in_any_case(ref.name)} if ref.section == "application_properties" else {ref}
    try:
        found = parse(DIALECTS[dialect].asks.format(written), dialect)
    except FilterError:
        return None
    named = {of_elements(node.ref) for node in walk(found.expression) if isinstance(node, Field)}
    return written if len(named) == 1 and named <= same else None
