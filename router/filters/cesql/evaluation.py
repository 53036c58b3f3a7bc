"""How the scalar reference and the access predicates treat the nodes of CloudEvents SQL."""

from __future__ import annotations

from bindery.router.filters.access import Access, access, access_of, any_of
from bindery.router.filters.ast import TROUBLE, Rules
from bindery.router.filters.cesql.casting import Result, cast, cast_like
from bindery.router.filters.cesql.functions import ANY, FUNCTIONS
from bindery.router.filters.cesql.nodes import Cast, CastLike, InOrder, Invocation, MemberOf
from bindery.router.filters.scalar import Context, compare, rule

_PLAIN = Rules()


@rule(Cast)
def _cast(node: Cast, context: Context) -> Result:
    return cast(context.value(node.operand), node.to)


@rule(CastLike)
def _cast_like(node: CastLike, context: Context) -> Result:
    return cast_like(context.value(node.operand), context.value(node.like))


@rule(Invocation)
def _invocation(node: Invocation, context: Context) -> Result:
    return invoke(node.function, *(context.value(item) for item in node.arguments))


def invoke(name: str, *arguments: Result) -> Result:
    """A function's value; the first argument that is missing or in trouble is the result."""
    function, values = FUNCTIONS[name], []
    for place, argument in enumerate(arguments):
        wanted = function.type_at(place)
        value = argument if wanted == ANY else cast(argument, wanted)
        if value is None or value is TROUBLE:
            return value
        values.append(value)
    result = function.compute(*values)
    return TROUBLE if result is None else result


@rule(InOrder)
def _in_order(node: InOrder, context: Context) -> Result:
    result = context.value(node.parts[0])
    for part in node.parts[1:]:
        if not isinstance(result, bool) or (node.op == "AND" and not result) or (node.op == "OR" and result):
            return result
        value = context.value(part)
        result = value is not result if node.op == "XOR" and isinstance(value, bool) else value
    return result


@rule(MemberOf)
def _member_of(node: MemberOf, context: Context) -> Result:
    value, result = context.value(node.operand), None
    for member in node.members:
        result = compare("=", value, context.value(member), _PLAIN)
        if result is not False:
            return result
    return result


@access(InOrder)
def _access(node: InOrder) -> Access | None:
    """OR: the keys of all parts, none of which decides, since one before it may be an error. AND: the first's."""
    if node.op == "XOR":
        return None
    found = any_of(*map(access_of, node.parts)) if node.op == "OR" else access_of(node.parts[0])
    return None if found is None else Access(found.keys, exact=False)
