"""Rules on names: those of other languages, look-alikes, and names that no message has."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping

from bindery.router.columns import Ref
from bindery.router.filters.ast import Field
from bindery.router.filters.dialect import DIALECTS
from bindery.router.filters.fields import ARTEMIS_NAMES, JMS_NAMES
from bindery.router.filters.lint.finding import Remark
from bindery.router.filters.lint.rules import SQL, rule
from bindery.router.filters.lint.subject import Subject
from bindery.router.message import SECTION_FIELDS
from bindery.router.spelling import alike, did_you_mean


def _properties(subject: Subject) -> Iterator[Field]:
    """Each application property that the filter reads, at its first mention."""
    told: set[str] = set()
    for node in subject.all(Field):
        if node.ref.section == "application_properties" and node.ref.name not in told:
            told.add(node.ref.name)
            yield node


def _same_field(name: str, names: Mapping[str, Ref], others: Mapping[str, Ref]) -> str | None:
    """What another language's name for a field is called in this one."""
    return next((own for own, ref in names.items() if ref == others[name]), None)


@rule(
    "BF109",
    "A name of another language",
    explanation="JMS names mean message fields in JMS selectors only, AMQ names in Artemis core filters only; AMQP "
    "SQL names fields by section (h.priority, p.subject). Elsewhere they are ordinary property names, which no "
    "message has unless it was given them.",
    example=("artemis", "JMSPriority > 4"),
    instead=("artemis", "AMQPriority > 4"),
)
def _foreign_name(subject: Subject) -> Iterator[Remark]:
    names = dict(subject.dialect.names) if subject.dialect else {}
    for field in _properties(subject):
        name = field.ref.name
        for others in (JMS_NAMES, ARTEMIS_NAMES):
            if name in others and name not in names:
                own = _own_name(subject, name, others, names)
                hint = f"; the field is called {own}" if own else ""
                yield subject.remark(field, f"{name} is an ordinary property in this language{hint}")


def _own_name(subject: Subject, name: str, others: Mapping[str, Ref], names: Mapping[str, Ref]) -> str | None:
    own = _same_field(name, names, others)
    if own is None and subject.dialect_name in SQL:
        ref = others[name]
        own = f"{ref.section}.{ref.name}" if ref.section in SECTION_FIELDS else None
    return own


@rule(
    "BF117",
    "A field without its section",
    severity="info",
    explanation="An unqualified name is an application property. Header and properties fields take their section: "
    "h.priority, p.subject.",
    dialects=SQL,
    example=("amqp-sql", "priority > 4"),
    instead=("amqp-sql", "h.priority > 4"),
)
def _unqualified_field(subject: Subject) -> Iterator[Remark]:
    for field in _properties(subject):
        for section, fields in SECTION_FIELDS.items():
            if subject.written(field) == field.ref.name and field.ref.name in fields:
                name = field.ref.name
                yield subject.remark(field, f"{name} is an application property; the field is {section}.{name}")


@rule(
    "BF110",
    "Look-alike name",
    explanation="Names are case-sensitive and compared character by character. This one differs by case, by a typing "
    "error, or by letters of another script from a name that was probably meant.",
    example=("jms", "JMSPriorty > 4"),
    instead=("jms", "JMSPriority > 4"),
)
def _look_alike(subject: Subject) -> Iterator[Remark]:
    names = list(subject.dialect.names) if subject.dialect else []
    prefixed = [name for dialect in DIALECTS.values() for name in dialect.names if "." not in name]
    observed = subject.schema.properties if subject.schema else []
    seen: list[str] = []
    for field in _properties(subject):
        name = field.ref.name
        scripts = _scripts(name)
        if len(scripts) > 1:
            yield subject.remark(field, f"{name} mixes letters of {' and '.join(sorted(scripts))}")
        elif name not in observed:
            close = _closest(name, names, prefixed, [*observed, *seen])
            if close is not None:
                yield subject.remark(field, did_you_mean(close, quoted=False))
        seen.append(name)


def _closest(name: str, names: list[str], known: list[str], properties: list[str]) -> str | None:
    if name in known:
        return None  # another language's name: a rule of its own
    for other in (*names, *known, *properties):
        if other != name and other.lower() == name.lower():
            return other
    if name.upper().startswith(("JMS", "AMQ")):
        return alike(name, [*names, *known])
    return alike(name, properties)


def _scripts(name: str) -> set[str]:
    letters = (unicodedata.name(char, "").split(" ")[0] for char in name if char.isalpha())
    return {script for script in letters if script in ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "FULLWIDTH")}


@rule(
    "BF113",
    "A property that no message has",
    severity="info",
    explanation="None of the sampled messages of the queue has this property, so that the condition was unknown for "
    "all of them.",
    example=("jms", "colour = 'red'"),
)
def _unseen_property(subject: Subject) -> Iterator[Remark]:
    if subject.schema is None or not subject.schema.messages:
        return
    for field in _properties(subject):
        if field.ref not in subject.schema.families:
            yield subject.remark(
                field, f"none of {subject.schema.messages:,} sampled messages has the property {field.ref.name}"
            )
