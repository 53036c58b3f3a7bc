"""Caps on what a filter may cost: when it is defined, and what XPATH may cost when it is evaluated."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class XPathLimits:
    """What one body and one evaluation may cost; beyond a limit the operand is false and counted.

    document_bytes, levels, nodes   bounds of one body
    steps                           nodes visited and characters handled (in units of 64) by one evaluation
    cached_nodes                    parsed nodes that `XPathDocuments` keeps at a time
    """

    document_bytes: int = 1_000_000
    levels: int = 200
    nodes: int = 500_000
    steps: int = 5_000_000
    cached_nodes: int = 1_000_000


@dataclass(frozen=True, slots=True)
class PayloadLimits:
    """What a body may be for a filter that looks into it; beyond a limit it is unparsable.

    bytes   of the body
    levels  of lists and maps
    nodes   values, lists and maps included
    """

    bytes: int = 1_000_000
    levels: int = 100
    nodes: int = 100_000


@dataclass(frozen=True, slots=True)
class PayloadSchema:
    """The schema of bodies as it was stated (`bindery.router.filters.schemas`); `digest` stands for the whole text."""

    digest: str
    text: str = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Payload:
    """What the bodies are that a filter looks into: their format (`bindery.router.filters.payload.FORMATS`).

    Formats that have schemas have one here.
    """

    format: str
    limits: PayloadLimits = field(default_factory=PayloadLimits)
    schema: PayloadSchema | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """Caps of one filter.

    characters      code points of the text
    tokens          tokens of the text
    depth           levels of parentheses, and levels of the tree
    like_pattern    code points of a LIKE pattern; a longer constant is refused, a longer computed one is
                    trouble. Matching costs at most len(text) * like_pattern / 64 word operations
    xpath           what its XPATH operands may cost
    bodies          what a body may be for a filter that looks into it
    payload         what bodies are where the filter stands; None: nobody says so, and `body.` has no meaning
    compat          the compatibility mode there (`bindery.router.compat`); None: the specification holds
    """

    characters: int = 4096
    tokens: int = 1000
    depth: int = 100
    like_pattern: int = 4096
    xpath: XPathLimits = field(default_factory=XPathLimits)
    bodies: PayloadLimits = field(default_factory=PayloadLimits)
    payload: Payload | None = None
    compat: str | None = None


DEFAULT_LIMITS = Limits()
#: For a filter that exists already: it was within the caps of its definition, whatever they were.
NO_LIMITS = Limits(characters=2**31, tokens=2**31, depth=2**31, like_pattern=2**31)
