"""The filter languages as tables: lexical rules, keywords, names, grammar and a few switches.

A language is data: what it calls its fields (`bindery.router.filters.fields`), which grammar file describes its
sentences, how its tokens look, and how it evaluates (`Rules`). Nothing asks for a language by name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from bindery.router.columns import Ref
from bindery.router.errors import FilterError
from bindery.router.filters.ast import Rules
from bindery.router.filters.fields import (
    AMQP_NAMES,
    ARTEMIS_NAMES,
    EVENT_NAMES,
    JMS_NAMES,
    SERVICE_BUS_NAMES,
    SQL_SECTIONS,
)


@dataclass(frozen=True, slots=True)
class Prefix:
    """A switch written before the filter: how it changes evaluation and lexical rules."""

    text: str
    rules: Mapping[str, bool] = field(default_factory=dict)
    tokens: Mapping[str, str] = field(default_factory=dict)
    body: str = ""


@dataclass(frozen=True, slots=True)
class Dialect:
    """One filter language.

    grammar         the grammar file, or what reads texts of another form (`bindery.router.filters.parser.READERS`)
    tokens          token type -> regular expression, tried in order at each place
    keywords        reserved words, upper case, in any case in a text
    names           identifiers that stand for message fields; all others are application properties
    reserved_prefix names with this prefix must be in `names`
    sections        section qualifiers before a dot; empty where the language has none
    quote           opening and closing of a quoted name, if any
    strict          whether values where a condition is needed, and ordering of string or boolean literals,
                    are definition errors (else they evaluate to unknown and false)
    blank_accepts   whether a blank text is a filter that accepts everything
    body            a reference into the body as a token, where bodies are declared; empty where the grammar has
                    paths of its own
    backslash       whether a quote inside a string has a backslash before it (else it is written twice)
    asks            how it is asked whether a field is there, `{}` for its name
    hints           what to say about an operator or character that the language does not have
    """

    name: str
    grammar: str
    tokens: Mapping[str, str]
    keywords: frozenset[str]
    rules: Rules
    names: Mapping[str, Ref] = field(default_factory=dict)
    reserved_prefix: str | None = None
    sections: Mapping[str, str] = field(default_factory=dict)
    quote: tuple[str, str] | None = None
    prefixes: tuple[Prefix, ...] = ()
    strict: bool = True
    blank_accepts: bool = True
    java_names: bool = True
    body: str = ""
    backslash: bool = False
    asks: str = "{} IS NULL"
    hints: Mapping[str, str] = field(default_factory=dict)

    def with_prefix(self, prefix: Prefix) -> Dialect:
        """The language as it reads after a prefix."""
        return replace(
            self,
            rules=replace(self.rules, **prefix.rules),
            tokens={**self.tokens, **prefix.tokens},
            body=prefix.body or self.body,
        )

    def with_bodies(self) -> Dialect:
        """The language as it reads where bodies are declared."""
        return replace(self, tokens={"BODY": self.body, **self.tokens}) if self.body else self


_SELECTOR_KEYWORDS: Final = frozenset(
    {"AND", "OR", "NOT", "BETWEEN", "IN", "LIKE", "ESCAPE", "IS", "NULL", "TRUE", "FALSE"}
)
_SQL_FUNCTIONS: Final = {"LOWER", "UPPER", "LEFT", "RIGHT", "SUBSTRING", "UTC", "DATE"}
_SQL_KEYWORDS: Final = frozenset(
    {"AND", "OR", "NOT", "LIKE", "IN", "IS", "NULL", "ESCAPE", "TRUE", "FALSE", "EXISTS", "NAN", "INF"} | _SQL_FUNCTIONS
)

#: Java letters and digits beyond ASCII are checked by category when a name is read (`bindery.router.filters.lexer`).
_JAVA_PART: Final = r"[A-Za-z0-9_$\u0080-\U0010ffff]"
_JAVA_NAME: Final = rf"[A-Za-z_$\u0080-\U0010ffff]{_JAVA_PART}*"
_HYPHENATED: Final = rf"{_JAVA_NAME}(?:-+{_JAVA_PART}+)*"
_SINGLE_QUOTED: Final = r"'(?:[^']|'')*'"
_DOUBLE_QUOTED: Final = r'"(?:[^"]|"")*"'
#: The body or a member of it: body.name, body[0], body['any name'], and so on inwards.
_BODY: Final = rf"body(?!{_JAVA_PART})(?:\.{_JAVA_NAME}|\[[0-9]{{1,9}}\]|\[{_SINGLE_QUOTED}\])*"
_HYPHENATED_BODY: Final = _BODY.replace(_JAVA_NAME, _HYPHENATED).replace(rf"(?!{_JAVA_PART})", rf"(?!-*{_JAVA_PART})")

_SELECTOR_TOKENS: Final = {
    "FLOAT": r"(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?|[0-9]+(?:[eE][+-]?[0-9]+[fFdD]?|[fFdD])",
    "HEX": r"0[xX][0-9A-Fa-f]+[lL]?",
    "INTEGER": r"[0-9]+[lL]?",
    "STRING": _SINGLE_QUOTED,
    "NAME": _JAVA_NAME,
    "COMPARISON": r"<>|<=|>=|=|<|>",
    "PLUS": r"\+",
    "MINUS": "-",
    "STAR": r"\*",
    "SLASH": "/",
    "LPAR": r"\(",
    "RPAR": r"\)",
    "COMMA": ",",
}
_SELECTOR_HINTS: Final = {
    "==": "`==` is not an operator, use `=`",
    "!=": "`!=` is not an operator here, use `<>`",
    "&&": "use AND",
    "&": "use AND",
    "||": "use OR",
    "|": "use OR",
    "!": "use NOT",
    '"': "a string takes single quotes",
    "“": "a string takes straight single quotes",
    "”": "a string takes straight single quotes",
    "‘": "a string takes straight single quotes",
    "’": "a string takes straight single quotes",
    "'": "the string is not closed; a quote inside a string is written twice",
    "%": "there is no remainder operator in this language",
    ";": "a filter is one expression without an end mark",
    ".": "a dot cannot stand in a name here",
    "[": "brackets have no meaning here",
    "{": "braces have no meaning here",
    "`": "a string takes single quotes",
    "=<": "use `<=`",
    "=>": "use `>=`",
    "><": "use `<>`",
}

JMS: Final = Dialect(
    name="jms",
    grammar="selector.lark",
    tokens=_SELECTOR_TOKENS,
    keywords=_SELECTOR_KEYWORDS,
    names=JMS_NAMES,
    rules=Rules(),
    body=_BODY,
    hints={
        **_SELECTOR_HINTS,
        ".": "a dot cannot stand in a name; `amqp.` names belong to the apache-selector dialect",
    },
)

APACHE_SELECTOR: Final = replace(
    JMS,
    name="apache-selector",
    names={**JMS_NAMES, **AMQP_NAMES},
    tokens={**_SELECTOR_TOKENS, "NAME": rf"amqp\.[A-Za-z0-9_$.]*|{_JAVA_NAME}"},
    reserved_prefix="amqp.",
    hints={**_SELECTOR_HINTS, ".": "a dot stands only in `amqp.<field>`, lower case"},
)

ARTEMIS: Final = Dialect(
    name="artemis",
    grammar="selector.lark",
    tokens={**_SELECTOR_TOKENS, "QUOTED": _DOUBLE_QUOTED, "PERCENT": "%"},
    keywords=_SELECTOR_KEYWORDS | {"XPATH"},
    names=ARTEMIS_NAMES,
    rules=Rules(),
    body=_BODY,
    quote=('"', '"'),
    prefixes=(
        Prefix("convert_string_expressions:", rules={"converts_text": True}),
        Prefix("hyphenated_props:", tokens={"NAME": _HYPHENATED}, body=_HYPHENATED_BODY),
    ),
    hints={
        **_SELECTOR_HINTS,
        '"': "the quoted name is not closed; double quotes name a property, a string takes single quotes",
        ":": "a prefix stands at the very start: convert_string_expressions: or hyphenated_props:",
    },
)

#: What the languages have in common that are after SQL, and no selectors.
_SQL_FLOAT: Final = r"(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+"
_SQL_OPERATORS: Final = {
    "COMPARISON": r"<>|!=|<=|>=|=|<|>",
    "PLUS": r"\+",
    "MINUS": "-",
    "STAR": r"\*",
    "SLASH": "/",
    "PERCENT": "%",
    "LPAR": r"\(",
    "RPAR": r"\)",
    "COMMA": ",",
}
_SQL_HINTS: Final = {
    **{key: hint for key, hint in _SELECTOR_HINTS.items() if key not in ("!=", "%", ".")},
    "!": "use NOT, or `!=` for unequal",
}

#: Section names with a hyphen are one token, so that they are no subtraction where the dot behind them is missing.
_SQL_SECTION_NAMES: Final = "|".join(name for name in SQL_SECTIONS if "-" in name)

AMQP_SQL: Final = Dialect(
    name="amqp-sql",
    grammar="amqp_sql.lark",
    tokens={
        "FLOAT": _SQL_FLOAT,
        "BINARY": r"0[xX](?:[0-9A-Fa-f]{2})+(?![0-9A-Za-z_])",
        "BAD_BINARY": "0[xX][0-9A-Za-z_]*",
        "INTEGER": "[0-9]+",
        "STRING": f"{_SINGLE_QUOTED}|{_DOUBLE_QUOTED}",
        "NAME": rf"(?:{_SQL_SECTION_NAMES})(?![A-Za-z0-9_])|[A-Za-z][A-Za-z0-9_]*",
        **_SQL_OPERATORS,
        "DOT": r"\.",
        # letters, symbols and digits (AMQP Filter Expressions: delimited_identifier), so no control character
        "QUOTED": r"\[(?:[^\[\]\x00-\x1f\x7f-\x9f]|\]\]|\[\[)*\]",
        "LSQB": r"\[",
        "RSQB": r"\]",
    },
    keywords=_SQL_KEYWORDS,
    sections=SQL_SECTIONS,
    quote=("[", "]"),
    rules=Rules(orders_text=True, joins_text=True, floating_division=True),
    strict=False,
    blank_accepts=False,
    java_names=False,
    hints={
        **_SQL_HINTS,
        '"': "the string is not closed; a quote inside a string is written twice",
        "[": "the delimited name is not closed, or holds a control character; `]` inside it is written `]]`",
        "0x": "a binary constant has an even number of hexadecimal digits",
        "_": "a name begins with an ASCII letter; write other names in brackets: [name]",
        "$": "a name has ASCII letters, digits and _; write other names in brackets: [name]",
    },
)

#: CloudEvents SQL 1.0 (cloudevents/spec, cesql/spec.md §2).
CESQL: Final = Dialect(
    name="cesql",
    grammar="cesql.lark",
    tokens={
        "INTEGER": "[0-9]+(?![A-Za-z0-9_])",
        "STRING": r"'(?:\\[\s\S]|[^'\\])*'|" + r'"(?:\\[\s\S]|[^"\\])*"',
        "NAME": "[A-Za-z0-9_]+",
        **_SQL_OPERATORS,
    },
    keywords=frozenset({"AND", "OR", "XOR", "NOT", "LIKE", "IN", "EXISTS", "TRUE", "FALSE"}),
    names=EVENT_NAMES,
    rules=Rules(integer_bits=32),
    blank_accepts=False,
    java_names=False,
    backslash=True,
    asks="EXISTS {}",
    hints={
        **_SQL_HINTS,
        "'": "the string is not closed; a quote inside a string has a backslash before it",
        '"': "the string is not closed; a quote inside a string has a backslash before it",
        ".": "there are whole numbers alone, and attributes of an event have no parts",
        ":": "attributes are named without a prefix: cloudEvents:type is called type",
        "$": "the name of an attribute has ASCII letters and digits",
    },
)

#: Event patterns of Amazon EventBridge: JSON (`bindery.router.filters.patterns`).
EVENTBRIDGE: Final = Dialect(
    name="eventbridge",
    grammar="pattern",
    tokens={"NAME": _JAVA_NAME},
    keywords=frozenset(),
    rules=Rules(),
    blank_accepts=False,
    asks='{{"{}": [{{"exists": true}}]}}',
)
#: Filter policies of Amazon SNS.
SNS: Final = replace(EVENTBRIDGE, name="sns", grammar="policy")

#: SQL filters of subscriptions (Azure Service Bus, "Subscription rule SQL filter syntax"). Operators are those of C#:
#: `/` of integers truncates, `+` joins strings, and strings have no order.
SERVICE_BUS: Final = Dialect(
    name="service-bus",
    grammar="service_bus.lark",
    tokens={
        "FLOAT": _SQL_FLOAT,
        "INTEGER": "[0-9]+",
        "STRING": _SINGLE_QUOTED,
        "QUOTED": _DOUBLE_QUOTED,
        "BRACKETED": r"\[(?:[^\]]|\]\])*\]",
        "NAME": r"[^\W\d_]\w*",
        **_SQL_OPERATORS,
        "DOT": r"\.",
    },
    keywords=frozenset({"AND", "OR", "NOT", "LIKE", "IN", "IS", "NULL", "ESCAPE", "TRUE", "FALSE", "EXISTS"}),
    names=SERVICE_BUS_NAMES,
    rules=Rules(joins_text=True),
    quote=('"', '"'),
    strict=False,
    blank_accepts=False,
    java_names=False,
    body=_BODY,
    hints={
        **_SQL_HINTS,
        '"': "the quoted name is not closed; double quotes name a property, a string takes single quotes",
        "[": "the delimited name is not closed; `]` inside it is written `]]`",
        "@": "parameters have no values here: write the value in place of the parameter",
        "_": "a name begins with a letter; write other names in brackets: [name]",
        "$": "a name has letters, digits and _; write other names in brackets: [name]",
    },
)

DIALECTS: Final[Mapping[str, Dialect]] = {
    dialect.name: dialect for dialect in (JMS, APACHE_SELECTOR, ARTEMIS, AMQP_SQL, CESQL, EVENTBRIDGE, SNS, SERVICE_BUS)
}
#: White space of a selector (JMS 2.0 §3.8.1.1): space, tab, form feed and the line terminators CR and LF.
BLANK: Final = re.compile(r"[ \t\r\n\f]*")


def dialect_named(name: str) -> Dialect:
    """The language of that name; raises FilterError naming the known ones."""
    found = DIALECTS.get(name)
    if found is None:
        raise FilterError(f"unknown filter dialect {name!r}", hint="known dialects: " + ", ".join(DIALECTS))
    return found
