"""Rules on conditions: constants, unlike types, missing properties, texts that look like something else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from bindery.router.columns import Ref
from bindery.router.filters.ast import (
    And,
    Between,
    Call,
    Compare,
    Field,
    In,
    IsNull,
    Like,
    Literal,
    Node,
    Not,
    Or,
    Truth,
)
from bindery.router.filters.families import family
from bindery.router.filters.fields import never_null
from bindery.router.filters.lint.finding import Remark
from bindery.router.filters.lint.rules import SETS, SQL, TEXTS, rule
from bindery.router.filters.lint.schema import fixed_families
from bindery.router.filters.lint.subject import Subject
from bindery.router.filters.lint.truths import outside_domain, possible
from bindery.router.filters.sets.nodes import Accepts

_JUNCTIONS: Final = (And, Or, Not, Accepts)


def _constant_parts(subject: Subject) -> Iterator[tuple[Node, bool, bool]]:
    """The largest parts whose result is settled: (node, always true, is the whole filter)."""
    if isinstance(subject.root, Truth) and isinstance(subject.root.operand, Literal):
        return  # TRUE, FALSE or a blank text: written on purpose
    if subject.root in (And(()), Or(())):
        return
    pending = [subject.root]
    while pending:
        node = pending.pop()
        truths = possible(node)
        if truths == {True}:
            yield node, True, node is subject.root
        elif True not in truths:
            yield _culprit(node), False, node is subject.root
        elif isinstance(node, And | Or):
            pending.extend(reversed(node.parts))


def _culprit(node: Node) -> Node:
    """The smallest part of an AND that is already never true."""
    while isinstance(node, And):
        inner = next((part for part in node.parts if True not in possible(part)), None)
        if inner is None:
            break
        node = inner
    return node


@rule(
    "BF101",
    "Never true",
    explanation="No message can satisfy this. Constants, bounds that leave nothing, one property with two values "
    "at once, a field compared with a value that it cannot hold: the part can be left out, or something else "
    "was meant.",
    dialects=TEXTS | SETS,
    example=("jms", "price > 10 AND price < 5"),
    instead=("jms", "price > 5 AND price < 10"),
)
def _never_true(subject: Subject) -> Iterator[Remark]:
    for node, always, whole in _constant_parts(subject):
        if not always:
            end = "the filter accepts no message" if whole else "this part never contributes"
            yield subject.remark(node, f"`{subject.written(node)}` is never true: {end}")


@rule(
    "BF102",
    "Always true",
    explanation="Every message satisfies this, so it decides nothing. A filter that is meant to accept everything "
    "says so best as TRUE, or is left out.",
    dialects=TEXTS | SETS,
    example=("jms", "1 = 1 AND colour = 'red'"),
    instead=("jms", "colour = 'red'"),
)
def _always_true(subject: Subject) -> Iterator[Remark]:
    for node, always, whole in _constant_parts(subject):
        if always:
            end = "the filter accepts every message" if whole else "this part decides nothing"
            yield subject.remark(node, f"`{subject.written(node)}` is always true: {end}")


@rule(
    "BF103",
    "A name where a text was meant",
    explanation="In Artemis filters \"double quotes\" name a property; a text takes 'single quotes'. The comparison "
    "is between two properties, and is unknown while one of them is missing.",
    dialects=frozenset({"artemis"}),
    example=("artemis", 'colour = "red"'),
    instead=("artemis", "colour = 'red'"),
)
def _quoted_name(subject: Subject) -> Iterator[Remark]:
    for node in subject.all(Compare):
        for side in (node.left, node.right):
            if isinstance(side, Field) and subject.written(side).startswith('"') and _is_other_field(node, side):
                name = subject.written(side)
                yield subject.remark(side, f"{name} is a property name here; the text is '{name[1:-1]}'")


def _is_other_field(node: Compare, side: Node) -> bool:
    other = node.left if side is node.right else node.right
    return side is node.right and isinstance(other, Field | Literal)


@rule(
    "BF104",
    "Ordering a text",
    explanation="Texts order by code point, digits included: '10' < '9' and 'Z' < 'a'. Compare numbers as numbers; "
    "a property that holds digits as text never meets a number.",
    dialects=SQL,
    example=("amqp-sql", "price > '100'"),
    instead=("amqp-sql", "price > 100"),
)
def _ordered_text(subject: Subject) -> Iterator[Remark]:
    for node in subject.all(Compare):
        if node.op in ("=", "<>"):
            continue
        for side in (node.left, node.right):
            if isinstance(side, Literal) and isinstance(side.value, str):
                yield subject.remark(side, f"`{node.op}` with the text {subject.written(side)} orders by code point")


@rule(
    "BF105",
    "NOT without parentheses",
    severity="info",
    explanation="NOT negates the whole comparison here, as in SQL and JMS. Artemis binds it to the first operand "
    "alone, so `NOT a = 1` means (NOT a) = 1 there. Parentheses mean the same everywhere.",
    example=("artemis", "NOT colour = 'red'"),
    instead=("artemis", "NOT (colour = 'red') OR colour IS NULL"),
)
def _bare_not(subject: Subject) -> Iterator[Remark]:
    for node in subject.unbracketed_negations:
        if isinstance(node, Not) and isinstance(node.part, Compare | Between | In | Like | IsNull):
            inner = subject.written(node.part)
            yield subject.remark(node, f"write NOT ({inner})")


def _observed(subject: Subject, ref: Ref) -> dict[str, int]:
    return dict(subject.schema.families.get(ref, {})) if subject.schema else {}


@rule(
    "BF106",
    "Unlike types",
    explanation="Values are never converted: a comparison of unlike types is false for every operator, `<>` "
    "included. Header and properties fields have fixed types; for other properties the sample of the queue's "
    "messages says what they hold.",
    example=("jms", "JMSPriority = 'high'"),
    instead=("jms", "JMSPriority = 9"),
)
def _unlike_types(subject: Subject) -> Iterator[Remark]:
    for node in subject.all(Compare):
        if not node.rules.converts_text:
            for field, literal in node.sides:
                yield from _unlike(subject, node, field, literal)
    for node in subject.all(Between):
        if isinstance(node.operand, Field) and not node.rules.converts_text:
            for bound in (node.low, node.high):
                if isinstance(bound, Literal):
                    yield from _unlike(subject, node, node.operand, bound)
    for node in subject.all(In):
        for member in node.members:
            if isinstance(node.operand, Field) and isinstance(member, Literal):
                yield from _unlike(subject, member, node.operand, member)
    for node in subject.all(Like):
        if isinstance(node.operand, Field):
            yield from _unlike(subject, node, node.operand, Literal(""))


def _unlike(subject: Subject, node: Node, field: Field, literal: Literal) -> Iterator[Remark]:
    wanted = family(literal.value)
    if wanted is None:
        return
    written = subject.written(field) or field.ref.name
    domain = outside_domain(field, literal)
    allowed = fixed_families(field.ref)
    seen = _observed(subject, field.ref)
    if allowed is not None and wanted not in allowed:
        kinds = " or ".join(sorted(allowed))
        yield subject.remark(node, f"{written} holds a {kinds}, never a {wanted}: this is never true")
    elif domain:
        yield subject.remark(node, f"{written} is one of {', '.join(map(repr, domain))}")
    elif seen and wanted not in seen:
        kinds = ", ".join(f"{name} ({count:,} messages)" for name, count in sorted(seen.items()))
        yield subject.remark(node, f"{written} was seen as {kinds}, never as a {wanted}")


@rule(
    "BF107",
    "Leftover signs",
    explanation="`--` is no comment: two signs in a row cancel out, so that `a = 1 --5` subtracts a negative number. "
    "One of them is left over from an edit.",
    example=("jms", "price = 10 --5"),
    instead=("jms", "price = 10 - 5"),
)
def _leftover_signs(subject: Subject) -> Iterator[Remark]:
    signs = ("MINUS", "PLUS")
    for first, second in zip(subject.tokens, subject.tokens[1:], strict=False):
        if first.type in signs and second.type in signs:
            start, end = first.start_pos or 0, second.end_pos or 0
            hint = "; there are no comments in filters" if subject.text[start:end] == "--" else ""
            yield Remark(f"`{subject.text[start:end]}`: two signs in a row{hint}", start, end - start)


@rule(
    "BF108",
    "Messages without the property",
    severity="info",
    explanation="A missing property makes the condition unknown, and the negation of unknown is unknown: neither "
    "`x <> 1` nor NOT (x = 1) accepts messages without x. Add `OR x IS NULL` when they are wanted.",
    example=("jms", "colour <> 'red'"),
    instead=("jms", "colour <> 'red' OR colour IS NULL"),
)
def _missing_property(subject: Subject) -> Iterator[Remark]:
    asked = {node.operand for node in subject.all(IsNull)}
    told: set[Field] = set()
    for node in subject.all(Compare, Not, Between):
        if isinstance(node, Compare):
            fields = [side for side in (node.left, node.right) if isinstance(side, Field) and node.op == "<>"]
        elif isinstance(node, Between):
            fields = [node.operand] if node.negated and isinstance(node.operand, Field) else []
        else:
            fields = _negated_fields(node.part)
        for field in fields:
            if field not in asked and field not in told and not never_null(field.ref):
                told.add(field)
                name = subject.written(field) or field.ref.name
                yield subject.remark(node, f"messages without {name} are not accepted; add OR {name} IS NULL if wanted")


def _negated_fields(node: Node) -> list[Field]:
    if isinstance(node, Compare):
        return [side for side in (node.left, node.right) if isinstance(side, Field) and node.op != "<>"]
    if isinstance(node, In | Like | Between):
        return [node.operand] if isinstance(node.operand, Field) else []
    if isinstance(node, And | Or):
        return [field for part in node.parts for field in _negated_fields(part)]
    return []


@rule(
    "BF111",
    "Wildcard in an equality",
    explanation="`%` is an ordinary character for `=`, `<>` and IN; only LIKE reads it as any run of characters.",
    example=("jms", "region = 'eu-%'"),
    instead=("jms", "region LIKE 'eu-%'"),
)
def _wildcard_equality(subject: Subject) -> Iterator[Remark]:
    for node in subject.all(Compare, In):
        members = node.members if isinstance(node, In) else (node.left, node.right)
        for member in members:
            if isinstance(member, Literal) and isinstance(member.value, str) and "%" in member.value:
                yield subject.remark(member, f"{subject.written(member)} is compared as it stands; LIKE reads the %")


@rule(
    "BF112",
    "LIKE without a wildcard",
    severity="info",
    explanation="A pattern without `%` and `_` is equal to one text only; `=` says so and can be looked up by its "
    "value instead of being tried on every message.",
    example=("jms", "region LIKE 'eu'"),
    instead=("jms", "region = 'eu'"),
)
def _plain_like(subject: Subject) -> Iterator[Remark]:
    for node in subject.all(Like):
        pattern = node.pattern.value if isinstance(node.pattern, Literal) else None
        if isinstance(pattern, str) and not {"%", "_"} & set(pattern):
            yield subject.remark(node, f"no wildcard in {subject.written(node.pattern)}: use =")


_PLACEHOLDER: Final = re.compile(r"\$\{[^}]*\}|\{\{.*?\}\}|%\([A-Za-z_]\w*\)s|\A%[sd]\Z|\A:[A-Za-z_]\w*\Z|\A\?\Z")


@rule(
    "BF114",
    "Placeholder left over",
    explanation="The text looks like a template's placeholder that nothing has replaced.",
    example=("jms", "tenant = '${TENANT}'"),
    instead=("jms", "tenant = 'acme'"),
)
def _placeholder(subject: Subject) -> Iterator[Remark]:
    for node in subject.all(Literal):
        if isinstance(node.value, str) and (found := _PLACEHOLDER.search(node.value)):
            yield subject.remark(node, f"{found.group()!r} was not replaced")


@rule(
    "BF115",
    "A text compared with a text",
    explanation="Both sides are constants. A property's name stands without quotes (in Artemis in double quotes, in "
    "AMQP SQL in brackets when it has other characters).",
    example=("jms", "'colour' = 'red'"),
    instead=("jms", "colour = 'red'"),
)
def _two_texts(subject: Subject) -> Iterator[Remark]:
    for node in subject.all(Compare):
        sides = (node.left, node.right)
        if all(isinstance(side, Literal) and isinstance(side.value, str) for side in sides):
            yield subject.remark(node, f"{subject.written(node.left)} is a text, not a property")


@rule(
    "BF116",
    "Time of the batch",
    severity="info",
    explanation="UTC() is fixed once per batch and recorded, so that a replay gives the same; a message that waits "
    "is judged by the time of the batch that routes it.",
    dialects=SQL,
    example=("amqp-sql", "p.absolute_expiry_time > UTC()"),
)
def _clock(subject: Subject) -> Iterator[Remark]:
    for node in subject.all(Call):
        if node.function == "UTC":
            yield subject.remark(node, "UTC() is the time of the batch")
