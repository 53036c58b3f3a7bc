"""How a question about a peer is asked and answered, whatever the peer."""

from __future__ import annotations

import itertools
import re
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields

from benchmarks.results import Answer, rounds


@dataclass(frozen=True)
class Options:
    """Messages for brokers, records for Spark and SQL engines, rounds that count, minutes after which none begins."""

    messages: int = 50_000
    records: int = 100_000
    rounds: int = 3
    minutes: float = 4

    def command(self, peer: str) -> str:
        """What asks that peer again, with these options."""
        chosen = {one.name: getattr(self, one.name) for one in fields(self) if getattr(self, one.name) != one.default}
        given = [f"--{name} {str(value).removesuffix('.0')}" for name, value in chosen.items()]
        return " ".join(["python -m benchmarks.peers --only", peer, *given])


@dataclass(frozen=True)
class Question:
    """A question, its answer, and what was found besides: copies that differ."""

    name: str
    answer: Answer
    notes: Sequence[str]
    versions: Mapping[str, str]


def in_turns(title: str, options: Options, measure: Callable[[bool], Mapping[str, float]]) -> dict[str, list[float]]:
    """Side -> seconds of each round that counts; `measure` asks all sides once, and is told whether it warms up."""
    found: dict[str, list[float]] = {}
    until = time.monotonic() + 60 * options.minutes
    for number in itertools.count():
        took = measure(number == 0)
        shown = ", ".join(f"{side} {seconds:.3f} s" for side, seconds in took.items())
        print(f"{title}: {f'round {number}' if number else 'warm-up'}: {shown}", flush=True)
        if number:
            for side, seconds in took.items():
                found.setdefault(side, []).append(seconds)
        if number >= options.rounds or (number and time.monotonic() > until):
            break
    return found


def measured(
    title: str,
    group: str,
    ours: tuple[str, Sequence[float]],
    theirs: tuple[str, Sequence[float]],
    *,
    messages: int,
    copies: int,
    notes: Sequence[str],
    settings: Mapping[str, str],
    command: str,
    versions: Mapping[str, str],
    at_least: float | None = None,
) -> Question:
    """What came out of rounds that each gave seconds of both sides for the same messages."""
    ratio, spread = rounds(ours[1], theirs[1])
    figures = {name: messages / statistics.median(seconds) for name, seconds in (ours, theirs)}
    same = "; ".join(notes) if notes else f"the same {copies:,} copies, queue by queue"
    answer = Answer(
        group,
        title,
        "messages/s",
        figures,
        ratio,
        spread,
        {**settings, "messages": f"{messages:,}", "rounds": str(len(ours[1])), "copies": same},
        command,
        at_least=at_least,
    )
    name = f"peers-{re.sub(r'[^a-z0-9]+', '-', title.lower()).strip('-')}"
    return Question(name, answer, notes, versions)


def differences(ours: Mapping[str, int], theirs: Mapping[str, int]) -> list[str]:
    """What is to be explained where a peer's queues do not hold what Bindery's hold."""
    apart = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
    if not apart:
        return []
    first = apart[0]
    return [
        f"{len(apart)} of {len(ours)} queues differ: {sum(theirs.values()):,} copies, Bindery {sum(ours.values()):,}; "
        f"{first} has {theirs.get(first)}, Bindery {ours.get(first)}"
    ]
