"""Where brokers would answer otherwise: filters that mean something else, or fail, where they came from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bindery.router.filters.ast import And, Arithmetic, Compare, Field, In, IsNull, Like, Literal, Node, Not, XPath
from bindery.router.filters.fields import never_null
from bindery.router.filters.lint.finding import Remark
from bindery.router.filters.lint.rules import JMS_LIKE, SELECTORS, SETS, SQL, rule
from bindery.router.filters.lint.schema import fixed_families
from bindery.router.filters.lint.subject import Subject
from bindery.router.filters.sets.descriptors import FILTER_TYPES
from bindery.router.filters.sets.nodes import Equals, NestedMatches, TopicMatches
from bindery.router.values import Table, Value

_ARTEMIS: Final = frozenset({"artemis"})


def _may_be_null(node: Node) -> bool:
    return isinstance(node, Field) and not never_null(node.ref)


@rule(
    "BF201",
    "Two properties compared (Artemis)",
    severity="info",
    explanation="In Artemis `=` is true when both properties are missing, and false for equal integers when the left "
    "one has the wider type. Here two missing properties give unknown, and integers compare by value.",
    dialects=_ARTEMIS,
    example=("artemis", "origin = target"),
    instead=("artemis", "origin = 'eu'"),
)
def _artemis_equality(subject: Subject) -> Iterator[Remark]:
    for node in subject.all(Compare):
        if node.op in ("=", "<>") and _may_be_null(node.left) and _may_be_null(node.right):
            yield subject.remark(node, "Artemis treats two missing properties as equal")


@rule(
    "BF202",
    "Division of integers (Artemis, Broker-J)",
    severity="info",
    explanation="Dividing integers truncates here, as in Java and JMS: 7/2 = 3. Artemis gives 3.5, Broker-J 17/4 = "
    "4.25. A decimal point on either side means the same everywhere.",
    dialects=SELECTORS,
    example=("jms", "weight / 2 = 3"),
    instead=("jms", "weight / 2.0 = 3.5"),
)
def _division(subject: Subject) -> Iterator[Remark]:
    for node in subject.all(Arithmetic):
        operands = (node.first, *node.rest)
        floating = any(isinstance(item, Literal) and isinstance(item.value, float) for item in operands)
        if "/" in node.ops and not floating:
            yield subject.remark(node, f"`{subject.written(node)}` truncates when both sides are integers")


@rule(
    "BF203",
    "`<>` and a missing property (Broker-J)",
    severity="info",
    explanation="In Broker-J `x <> 1` also matches messages without x. Here, as in JMS, it does not.",
    dialects=JMS_LIKE,
    example=("jms", "colour <> 'red'"),
    instead=("jms", "colour = 'red'"),
)
def _broker_j_unequal(subject: Subject) -> Iterator[Remark]:
    asked = {node.operand for node in subject.all(IsNull)}
    for node in subject.all(Compare):
        sides = [side for side in (node.left, node.right) if _may_be_null(side) and side not in asked]
        if node.op == "<>" and sides:
            yield subject.remark(node, f"Broker-J accepts messages without {subject.written(sides[0])}")


@rule(
    "BF204",
    "NOT of an AND (Broker-J)",
    severity="info",
    explanation="In Broker-J unknown AND false is unknown, so the negation does not accept; by JMS it is false, and "
    "the negation accepts.",
    dialects=JMS_LIKE,
    example=("jms", "NOT (colour = 'red' AND weight > 2)"),
    instead=("jms", "colour <> 'red' OR weight <= 2"),
)
def _broker_j_negation(subject: Subject) -> Iterator[Remark]:
    for node in subject.all(Not):
        if isinstance(node.part, And):
            yield subject.remark(node, "Broker-J rejects this when one part is unknown and the other false")


@rule(
    "BF205",
    "NOT IN with a null member (RabbitMQ)",
    severity="info",
    explanation="In RabbitMQ `x NOT IN (a, NULL)` is true when x equals no member; by SQL a null member makes it "
    "unknown.",
    dialects=SQL,
    example=("amqp-sql", "colour NOT IN ('red', other)"),
    instead=("amqp-sql", "colour NOT IN ('red', 'blue')"),
)
def _rabbitmq_not_in(subject: Subject) -> Iterator[Remark]:
    for node in subject.all(Not):
        if isinstance(node.part, In):
            for member in node.part.members:
                null = isinstance(member, Literal) and member.value is None
                if null or _may_be_null(member):
                    yield subject.remark(member, "a member that may be null: RabbitMQ accepts, here it is unknown")


@rule(
    "BF206",
    "`<>` on unlike types (RabbitMQ)",
    severity="info",
    explanation="In RabbitMQ values of unlike types are unequal, so `<>` is true. Here every comparison of unlike "
    "types is false.",
    dialects=SQL,
    example=("amqp-sql", "weight <> 5"),
    instead=("amqp-sql", "h.priority <> 5"),
)
def _rabbitmq_unequal(subject: Subject) -> Iterator[Remark]:
    for node in subject.all(Compare):
        if node.op == "<>" and any(
            isinstance(side, Field) and fixed_families(side.ref) is None for side in (node.left, node.right)
        ):
            yield subject.remark(node, "RabbitMQ accepts messages where the types differ")


@rule(
    "BF207",
    "Keywords in lower case (RabbitMQ)",
    severity="info",
    explanation="RabbitMQ reads keywords in upper case only; here they may be in any case.",
    dialects=SQL,
    example=("amqp-sql", "colour is null"),
    instead=("amqp-sql", "colour IS NULL"),
)
def _rabbitmq_keywords(subject: Subject) -> Iterator[Remark]:
    keywords = subject.dialect.keywords if subject.dialect else frozenset()
    for token in subject.tokens:
        if token.type in keywords and token.isalpha() and not token.isupper():
            start = token.start_pos or 0
            yield Remark(f"RabbitMQ knows {token.upper()} only", start, len(token))


@rule(
    "BF208",
    "ESCAPE that is not checked (RabbitMQ)",
    severity="info",
    explanation="RabbitMQ does not check that the escape of LIKE is one character. Here a constant one is refused "
    "when it is not, and a computed one makes LIKE unknown.",
    dialects=SQL,
    example=("amqp-sql", "name LIKE 'a!%%' ESCAPE mark"),
    instead=("amqp-sql", "name LIKE 'a!%%' ESCAPE '!'"),
)
def _rabbitmq_escape(subject: Subject) -> Iterator[Remark]:
    for node in subject.all(Like):
        if node.escape is not None and not isinstance(node.escape, Literal):
            yield subject.remark(node.escape, "a computed escape")


@rule(
    "BF209",
    "XPATH reads no DTD (Artemis)",
    severity="info",
    explanation="Artemis can be told to accept a DOCTYPE and to read external entities. Here there is no such "
    "switch: a body with a DOCTYPE makes XPATH false, and bodies over the limits too.",
    dialects=_ARTEMIS,
    example=("artemis", "XPATH '/order'"),
)
def _xpath(subject: Subject) -> Iterator[Remark]:
    for node in subject.all(XPath):
        yield subject.remark(node, "bodies with a DOCTYPE never match")


@rule(
    "BF210",
    "Types in property filters (RabbitMQ)",
    severity="info",
    explanation="RabbitMQ's property filters take 10 = 10.0 and binary = string. Here integers, floating-point "
    "numbers, timestamps, binaries and strings are families of their own.",
    dialects=SETS,
    example=(
        "filter-set",
        '{"f": {"descriptor": "amqp:application-properties-filter", "value": {"weight": 10}}}',
    ),
    instead=(
        "filter-set",
        '{"f": {"descriptor": "amqp:application-properties-filter", "value": {"colour": "red"}}}',
    ),
)
def _rabbitmq_families(subject: Subject) -> Iterator[Remark]:
    for node in subject.all(Equals, NestedMatches):
        if isinstance(node.reference, Literal) and isinstance(node.field, Field) and _has_number(node.reference.value):
            fixed = fixed_families(node.field.ref)
            if fixed is None or len(fixed) > 1:
                yield Remark(f"{node.field.ref.name or node.field.ref.section}: RabbitMQ converts between types here")


def _has_number(value: Value) -> bool:
    if isinstance(value, tuple):
        return any(_has_number(item) for item in value)
    if isinstance(value, Table):
        return any(_has_number(item) for item in value.values())
    return isinstance(value, int | float | bytes) and not isinstance(value, bool)


def _topic_set(pattern: str) -> tuple[str, str]:
    descriptor = "apache.org:legacy-amqp-topic-binding:string"
    return "filter-set", f'{{"f": {{"descriptor": "{descriptor}", "value": "{pattern}"}}}}'


def _patterns(subject: Subject) -> Iterator[tuple[str, list[str]]]:
    for node in subject.all(TopicMatches):
        if isinstance(node.pattern, Literal):
            pattern = str(node.pattern.value)
            yield pattern, pattern.split(".") if pattern else []


@rule(
    "BF211",
    "`#` inside a pattern (Artemis)",
    severity="info",
    explanation="Artemis matches `#` before other words by the order in which addresses were added. Here it is any "
    "number of words at any place.",
    dialects=SETS,
    example=_topic_set("news.#.sport"),
    instead=_topic_set("news.#"),
)
def _artemis_inner_hash(subject: Subject) -> Iterator[Remark]:
    for pattern, words in _patterns(subject):
        if "#" in words[:-1]:
            yield Remark(f"{pattern!r} has a # before its end")


@rule(
    "BF212",
    "Empty words in a pattern (Broker-J)",
    severity="info",
    explanation="Broker-J drops empty words at the end of topics and patterns. Here every empty word between dots "
    "counts.",
    dialects=SETS,
    example=_topic_set("news.sport."),
    instead=_topic_set("news.sport"),
)
def _broker_j_empty_words(subject: Subject) -> Iterator[Remark]:
    for pattern, words in _patterns(subject):
        if words and not words[-1]:
            yield Remark(f"{pattern!r} ends with an empty word")


@rule(
    "BF213",
    "More than two `#` (RabbitMQ)",
    severity="info",
    explanation="RabbitMQ 4.3.5 and later refuse keys with more than two `#`. Here their number does not matter.",
    dialects=SETS,
    example=_topic_set("#.a.#.b.#"),
    instead=_topic_set("#.a.#"),
)
def _rabbitmq_hashes(subject: Subject) -> Iterator[Remark]:
    for pattern, words in _patterns(subject):
        if words.count("#") > 2:
            yield Remark(f"{pattern!r} has {words.count('#')} #")


_KNOWN_TO_RABBITMQ: Final = frozenset(
    {"amqp:properties-filter", "amqp:application-properties-filter", "amqp:sql-filter"}
)
_CODES: Final = {kind.code: kind.symbol for kind in FILTER_TYPES if kind.code is not None}


@rule(
    "BF214",
    "Filters that RabbitMQ ignores",
    severity="info",
    explanation="RabbitMQ attaches the filters that it knows, drops the others, and delivers everything. Here an "
    "unknown filter is refused.",
    dialects=SETS,
    example=("filter-set", '{"f": {"descriptor": "amqp:header-filter", "value": {"priority": 4}}}'),
    instead=("filter-set", '{"f": {"descriptor": "amqp:properties-filter", "value": {"subject": "a"}}}'),
)
def _rabbitmq_unknown(subject: Subject) -> Iterator[Remark]:
    for descriptor in subject.descriptors:
        symbol = _CODES.get(descriptor, descriptor) if isinstance(descriptor, int) else descriptor
        if symbol not in _KNOWN_TO_RABBITMQ:
            yield Remark(f"RabbitMQ does not know {symbol}")


_HEADERS: Final = "apache.org:legacy-amqp-headers-binding:map"


def _headers_set(value: str) -> tuple[str, str]:
    return "filter-set", f'{{"f": {{"descriptor": "{_HEADERS}", "value": {value}}}}}'


@rule(
    "BF215",
    "Typed equality of headers (Broker-J, RabbitMQ)",
    severity="info",
    explanation="Broker-J compares by Java class (an int never equals a long), RabbitMQ before 3.13 takes 5 = 5.0. "
    "Here integers of every width are one family and floating-point numbers another.",
    dialects=SETS,
    example=_headers_set('{"x-match": "all", "weight": 5}'),
    instead=_headers_set('{"x-match": "all", "colour": "red"}'),
)
def _typed_headers(subject: Subject) -> Iterator[Remark]:
    for _, value in subject.described(_HEADERS, 0x468C_0000_0002):
        for name, item in value.items():
            if not name.startswith("x-") and isinstance(item, int | float) and not isinstance(item, bool):
                yield Remark(f"{name}: brokers differ in what equals {item}")


@rule(
    "BF216",
    "`any` of nothing (Broker-J)",
    severity="info",
    explanation="Headers matching `any` without arguments matches everything in Broker-J, and nothing here.",
    dialects=SETS,
    example=_headers_set('{"x-match": "any"}'),
    instead=_headers_set('{"x-match": "any", "colour": "red"}'),
)
def _any_of_nothing(subject: Subject) -> Iterator[Remark]:
    for _, value in subject.described(_HEADERS, 0x468C_0000_0002):
        if value.get("x-match") in ("any", {"symbol": "any"}) and all(name.startswith("x-") for name in value):
            yield Remark("x-match any with nothing to match accepts no message")
