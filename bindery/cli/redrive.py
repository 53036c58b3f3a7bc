"""`bindery unroutable` and `bindery redrive`: what reached no queue, and another try."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from bindery.cli.options import DATA, DataOption, DryRunOption, FilterOption, JsonOption, PayloadOption, VhostOption
from bindery.cli.render import console, refused_tree, show_table
from bindery.router.error_text import counted
from bindery.router.errors import InvalidInput
from bindery.router.filters import DIALECTS
from bindery.router.model import DEFAULT_VHOST
from bindery.router.moments import read_iso
from bindery.router.spelling import nearest

if TYPE_CHECKING:
    from bindery.router.model import Topology
    from bindery.store.unroutable import Selection

ReasonOption = Annotated[list[str] | None, typer.Option("--reason", help="Only rows with this reason (repeatable).")]
ExchangeOption = Annotated[str | None, typer.Option("--exchange", help="Only messages published to this exchange.")]
KeyOption = Annotated[
    str | None, typer.Option("--key", help="Only routing keys that match this pattern (* one word, # any number).")
]
SinceOption = Annotated[str | None, typer.Option("--from", help="Routed at this ISO 8601 time or later (UTC).")]
UntilOption = Annotated[str | None, typer.Option("--to", help="Routed before this ISO 8601 time (UTC).")]
#: What stands for a routing key in the summary.
_KEY_COLUMNS: Final = ("exchange", "routing_key", "reason", "rows")
DialectOption = Annotated[str, typer.Option("--dialect", help="Of --filter: " + ", ".join(DIALECTS) + ".")]


def unroutable(
    data: DataOption = DATA,
    vhost: VhostOption = DEFAULT_VHOST,
    reason: ReasonOption = None,
    exchange: ExchangeOption = None,
    key: KeyOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    condition: FilterOption = None,
    dialect: DialectOption = "jms",
    payload: PayloadOption = None,
    top: Annotated[int, typer.Option("--top", min=1, max=1000, help="Keys to list.")] = 20,
    show: Annotated[
        int, typer.Option("--show", min=0, max=1000, help="Rows to show whole, the newest first, in place of counts.")
    ] = 0,
    as_json: JsonOption = False,
) -> None:
    """Count unroutable rows by reason and by routing key, the most frequent first; or show the newest ones."""
    from bindery.store.paths import DataDir  # noqa: PLC0415  # `bindery --help` does not wait for Delta
    from bindery.store.topology import TopologyStore  # noqa: PLC0415
    from bindery.store.unroutable import newest, summary  # noqa: PLC0415

    directory = DataDir.open(data)
    topology = TopologyStore(directory).load()
    topology.vhost(vhost)
    chosen = _selection(topology, vhost, reason, exchange, key, since, until, condition, dialect, payload)
    found = summary(directory, vhost, chosen, top=top).as_data()
    if show:
        known = [name for where, name in topology.exchanges if where == vhost]
        found["newest"] = [_meant(row, known) for row in newest(directory, vhost, chosen, show)]
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False))
        return
    out = console()
    out.print(f"{counted(found['rows'], 'unroutable row')}, {found['redriven']:,} of them redriven since")
    if show:
        for row in found["newest"]:
            out.print(refused_tree("unroutable", row))
        return
    if found["reasons"]:
        for name, columns in (("reasons", ("reason", "disposition", "rows")), ("keys", _KEY_COLUMNS)):
            show_table(columns, ([row[column] for column in columns] for row in found[name]), out=out)
    if found["distinct_keys"] > len(found["keys"]):
        out.print(f"and {counted(found['distinct_keys'] - len(found['keys']), 'further key')}")


def redrive(
    data: DataOption = DATA,
    vhost: VhostOption = DEFAULT_VHOST,
    reason: ReasonOption = None,
    exchange: ExchangeOption = None,
    key: KeyOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    condition: FilterOption = None,
    dialect: DialectOption = "jms",
    payload: PayloadOption = None,
    journal: Annotated[
        bool, typer.Option("--journal", help="Also messages that reached no queue and only a journal has.")
    ] = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Route unroutable rows again under the present topology, each exactly once.

    Rows that reach a queue now are marked as redriven; the others stay as they are. A redrive that was
    interrupted is finished by the next one.
    """
    from bindery.store.paths import DataDir  # noqa: PLC0415  # `bindery --help` does not wait for Delta
    from bindery.store.redrive import Redriver  # noqa: PLC0415
    from bindery.store.topology import TopologyStore  # noqa: PLC0415

    directory = DataDir.open(data)
    store = TopologyStore(directory)
    chosen = _selection(store.load(), vhost, reason, exchange, key, since, until, condition, dialect, payload)
    found = Redriver(directory, store, vhost).redrive(chosen, journals=journal, dry_run=dry_run).as_data()
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False))
        return
    out = console()
    verb = "would be redriven" if dry_run else "redriven"
    copies = counted(found["copies"], "copy", "copies")
    out.print(f"{found['redriven']:,} of {counted(found['chosen'], 'row')} {verb}: {copies}")
    if found["queues"]:
        show_table(("queue", "rows"), found["queues"].items(), out=out)
    if found["backfilled"]:
        show_table(("queue", "left out: brought by backfills"), found["backfilled"].items(), out=out)
    for code, count in found["still_unroutable"].items():
        out.print(f"still unroutable: {counted(count, 'row')} ({code})")


def _selection(
    topology: Topology,
    vhost: str,
    reasons: list[str] | None,
    exchange: str | None,
    key: str | None,
    since: str | None,
    until: str | None,
    condition: str | None,
    dialect: str,
    payload: str | None,
) -> Selection:
    """The rows that options choose; bodies are what the exchange declares, where one is named, or else `payload`.

    Raises InvalidInput for an option that cannot be read.
    """
    from bindery.store.consumer_filters import consumer_filter, exchange_payload  # noqa: PLC0415  # as below
    from bindery.store.unroutable import Selection  # noqa: PLC0415  # `bindery --help` does not wait for Delta

    bodies = exchange_payload(topology, exchange, condition, vhost=vhost, payload=payload)
    return Selection(
        reasons=frozenset(reasons or ()),
        exchange=exchange,
        key=key,
        since=moment(since, "--from"),
        until=moment(until, "--to"),
        condition=consumer_filter(condition, dialect=dialect, payload=bodies),
    )


def moment(text: str | None, where: str) -> datetime | None:
    """An ISO 8601 time; without a zone it is UTC. Raises InvalidInput."""
    if text is None:
        return None
    try:
        return read_iso(text)
    except ValueError:
        raise InvalidInput(f"{text!r} is no time", where=where, hint="2026-01-31 or 2026-01-31T12:00:00Z") from None


def _meant(row: dict[str, Any], exchanges: list[str]) -> dict[str, Any]:
    """The row, with the exchange that its sender may have meant where there is none of that name."""
    near = nearest(row["exchange"] or "", exchanges) if row["reason"] == "no_exchange" else None
    return row if near is None else row | {"fix": f"did you mean exchange {near!r}?"}
