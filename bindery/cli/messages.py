"""`bindery messages`: what a queue holds, as a consumer sees it: count, browse, get, delete, move, copy."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Final

import typer

from bindery.cli.filter import read_filter
from bindery.cli.names import note_misspelt
from bindery.cli.options import (
    DATA,
    DataOption,
    DryRunOption,
    FilterOption,
    JsonOption,
    LiveOption,
    PayloadOption,
    VhostOption,
)
from bindery.cli.render import console, show_table
from bindery.router.error_text import counted, visible
from bindery.router.errors import InvalidInput
from bindery.router.filters import DIALECTS
from bindery.router.filters.sets import DIALECT as FILTER_SET
from bindery.router.model import DEFAULT_VHOST
from bindery.router.moments import iso

if TYPE_CHECKING:
    import pyarrow as pa

    from bindery.router.filters import Filter
    from bindery.store.destinations import Destination
    from bindery.store.paths import DataDir
    from bindery.store.transfers import Transferred

app = typer.Typer(help="Messages of a queue, chosen by a consumer's filter.", no_args_is_help=True)

QueueArgument = Annotated[str, typer.Argument(help="The queue.")]
DialectOption = Annotated[
    str, typer.Option("--dialect", help="Of --filter: " + ", ".join([*DIALECTS, FILTER_SET]) + ".")
]
_LIMIT: Final = typer.Option("--limit", min=1, help="Messages at most, the first in the order of routing.")
LimitOption = Annotated[int, _LIMIT]
MostOption = Annotated[int | None, _LIMIT]
ToOption = Annotated[str | None, typer.Option("--to", help="The other queue, of the same vhost.")]
ToExchangeOption = Annotated[
    str | None,
    typer.Option("--to-exchange", help="An exchange of the same vhost, which routes them anew; '' is the default one."),
]
RoutingKeyOption = Annotated[
    str | None,
    typer.Option("--routing-key", help="With --to-exchange: instead of the keys that the messages have."),
]

_COLUMNS: Final = ("row", "routed at", "exchange", "routing key", "body")
#: Characters of a body on a terminal.
_BODY: Final = 60


@app.command()
def count(
    queue: QueueArgument,
    data: DataOption = DATA,
    vhost: VhostOption = DEFAULT_VHOST,
    condition: FilterOption = None,
    dialect: DialectOption = "jms",
    payload: PayloadOption = None,
    live: LiveOption = True,
    as_json: JsonOption = False,
) -> None:
    """Count the messages of a queue; of a deferred one, tell how many of them wait for its table.

    Example: bindery messages count late --filter "dep_delay > 60"
    """
    # Imported here so that `bindery --help` does not wait for Delta.
    from bindery.store import read  # noqa: PLC0415

    directory = _opened(data, vhost, queue)
    chosen = _filter(directory, vhost, queue, condition, dialect, payload)
    found = read.counted(directory, queue, vhost=vhost, condition=chosen, live=live)
    if not found.rows:
        note_misspelt(directory, vhost, chosen)
    if as_json:
        typer.echo(json.dumps({"messages": found.rows, "waiting": found.waiting}))
        return
    typer.echo(str(found.rows))
    if found.waiting:
        typer.echo(f"{found.waiting:,} of them wait in a journal for the table of the queue", err=True)


@app.command()
def browse(
    queue: QueueArgument,
    data: DataOption = DATA,
    vhost: VhostOption = DEFAULT_VHOST,
    condition: FilterOption = None,
    dialect: DialectOption = "jms",
    payload: PayloadOption = None,
    limit: LimitOption = 20,
    live: LiveOption = True,
    as_json: JsonOption = False,
) -> None:
    """Show the first messages of a queue, which stay as they are.

    With --json each message is a line, in the form that `bindery explain --message` reads.
    """
    from bindery.store import read  # noqa: PLC0415  # `bindery --help` does not wait for Delta

    directory = _opened(data, vhost, queue)
    chosen = _filter(directory, vhost, queue, condition, dialect, payload)
    found = read.browse(directory, queue, vhost=vhost, limit=limit, condition=chosen, live=live)
    if not found.num_rows:
        note_misspelt(directory, vhost, chosen)
    _show(found, as_json=as_json)


@app.command()
def get(
    queue: QueueArgument,
    data: DataOption = DATA,
    vhost: VhostOption = DEFAULT_VHOST,
    condition: FilterOption = None,
    dialect: DialectOption = "jms",
    payload: PayloadOption = None,
    limit: LimitOption = 1,
    requeue: Annotated[
        bool, typer.Option("--requeue", help="Leave them in the queue, with a delivery more on record.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Take the first messages out of a queue, in one commit, and show them.

    What did not pass the filter stays. The rows are gone from the table's newest version; older versions have
    them as long as they are kept. With --json each message is a line.
    """
    from bindery.store import read  # noqa: PLC0415  # `bindery --help` does not wait for Delta

    directory = _opened(data, vhost, queue)
    chosen = _filter(directory, vhost, queue, condition, dialect, payload)
    taken = read.take(directory, queue, vhost=vhost, limit=limit, condition=chosen, requeue=requeue)
    if not taken.rows.num_rows:
        note_misspelt(directory, vhost, chosen)
    _show(taken.rows, as_json=as_json)


@app.command()
def delete(
    queue: QueueArgument,
    data: DataOption = DATA,
    vhost: VhostOption = DEFAULT_VHOST,
    condition: FilterOption = None,
    dialect: DialectOption = "jms",
    payload: PayloadOption = None,
    everything: Annotated[bool, typer.Option("--all", help="Delete all messages: empty the queue.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Delete the messages that pass a filter, in one commit.

    Older versions of the table have them as long as they are kept.
    """
    from bindery.store import read  # noqa: PLC0415  # `bindery --help` does not wait for Delta

    if everything == (condition is not None):
        raise InvalidInput(
            "what to delete is not said" if condition is None else "a filter and --all exclude each other",
            where="bindery messages delete",
            hint="give --filter, or --all to empty the queue",
        )
    directory = _opened(data, vhost, queue)
    chosen = _filter(directory, vhost, queue, condition, dialect, payload)
    gone = read.delete_matching(directory, queue, chosen, vhost=vhost)
    if not gone:
        note_misspelt(directory, vhost, chosen)
    typer.echo(json.dumps({"deleted": gone}) if as_json else f"{counted(gone, 'message')} deleted")


@app.command()
def move(
    queue: QueueArgument,
    to: ToOption = None,
    to_exchange: ToExchangeOption = None,
    routing_key: RoutingKeyOption = None,
    data: DataOption = DATA,
    vhost: VhostOption = DEFAULT_VHOST,
    condition: FilterOption = None,
    dialect: DialectOption = "jms",
    payload: PayloadOption = None,
    limit: MostOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Move the messages that pass a filter into another queue, or to an exchange, each exactly once.

    They keep their content, and stand behind what the other queue holds. What its own filter refuses stays, and so
    does what reaches no queue through the exchange. A move that was interrupted is finished by the next one in the
    vhost.

    Examples: bindery messages move late --to audit --filter "dep_delay > 60", and
    bindery messages move late --to-exchange flights --routing-key retry --dry-run
    """
    from bindery.store.moves import Mover  # noqa: PLC0415  # `bindery --help` does not wait for Delta
    from bindery.store.topology import TopologyStore  # noqa: PLC0415
    from bindery.store.transfers import Transfer  # noqa: PLC0415

    directory, destination = _opened(data, vhost, queue), _destination(to, to_exchange, routing_key)
    chosen = Transfer(vhost, queue, destination, _filter(directory, vhost, queue, condition, dialect, payload), limit)
    done = Mover(directory, TopologyStore(directory), vhost).move(chosen, dry_run=dry_run)
    if as_json:
        typer.echo(json.dumps(done.as_move(), ensure_ascii=False))
        return
    _say("would be moved" if dry_run else "moved", done, destination)


@app.command()
def copy(
    queue: QueueArgument,
    to: ToOption = None,
    to_exchange: ToExchangeOption = None,
    routing_key: RoutingKeyOption = None,
    data: DataOption = DATA,
    vhost: VhostOption = DEFAULT_VHOST,
    condition: FilterOption = None,
    dialect: DialectOption = "jms",
    payload: PayloadOption = None,
    limit: MostOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Copy the messages that pass a filter into another queue, in one commit, or to an exchange.

    What the filter of the other queue refuses, or reaches no queue through the exchange, is left out. A copy into a
    queue that was interrupted has been made whole or not at all; one to an exchange is finished by the next move or
    copy to an exchange in the vhost.

    Example: bindery messages copy late --to audit --limit 100
    """
    from bindery.store.queue_copies import copy_messages  # noqa: PLC0415  # `bindery --help` does not wait for Delta
    from bindery.store.topology import TopologyStore  # noqa: PLC0415
    from bindery.store.transfers import Transfer  # noqa: PLC0415

    directory, destination = _opened(data, vhost, queue), _destination(to, to_exchange, routing_key)
    chosen = Transfer(vhost, queue, destination, _filter(directory, vhost, queue, condition, dialect, payload), limit)
    done = copy_messages(directory, TopologyStore(directory), chosen, dry_run=dry_run)
    if as_json:
        typer.echo(json.dumps(done.as_copy(), ensure_ascii=False))
        return
    _say("would be copied" if dry_run else "copied", done, destination)


def _destination(to: str | None, to_exchange: str | None, routing_key: str | None) -> Destination:
    """Where messages go. Raises InvalidInput when options exclude each other, or none says where."""
    from bindery.store.destinations import ToExchange, ToQueue  # noqa: PLC0415  # as above

    where = "bindery messages"
    if to_exchange is not None and to is None:
        return ToExchange(to_exchange, routing_key)
    if to is None or to_exchange is not None:
        raise InvalidInput(
            "where the messages go is not said" if to is None else "--to and --to-exchange exclude each other",
            where=where,
            hint="give --to QUEUE, or --to-exchange EXCHANGE",
        )
    if routing_key is not None:
        raise InvalidInput("--routing-key is for exchanges", where=where, hint="give it with --to-exchange")
    return ToQueue(to)


def _say(verb: str, done: Transferred, to: Destination) -> None:
    from bindery.store.destinations import ToExchange  # noqa: PLC0415  # as above

    if done.finished:
        typer.echo(f"{counted(done.finished, 'message')} of an interrupted move or copy arrived first")
    typer.echo(f"{counted(done.messages, 'message')} {verb} to {visible(to.name) or 'the default exchange'}")
    for name, copies in sorted(done.queues.items()):
        if isinstance(to, ToExchange):
            typer.echo(f"  {visible(name)}: {counted(copies, 'copy', 'copies')}")
    if done.refused:
        typer.echo(f"{counted(done.refused, 'message')} refused by the filter of {visible(to.name)}")
    for reason, messages in sorted(done.unroutable.items()):
        typer.echo(f"{counted(messages, 'message')} left where they are, since they reach no queue: {reason}")


def _opened(data: str, vhost: str | None = None, queue: str = "") -> DataDir:
    """The data directory; raises NotFound when the queue has no table in it, with the name that was meant."""
    from bindery.analytics.point import require_queue  # noqa: PLC0415  # `bindery --help` does not wait for Delta
    from bindery.store.paths import DataDir  # noqa: PLC0415
    from bindery.store.tables import exists  # noqa: PLC0415
    from bindery.store.topology import TopologyStore  # noqa: PLC0415

    directory = DataDir.open(data)
    if vhost is not None and not exists(directory.queue(vhost, queue)):
        require_queue(TopologyStore(directory).load(), vhost, queue)
    return directory


def _filter(
    directory: DataDir, vhost: str, queue: str, text: str | None, dialect: str, payload: str | None
) -> Filter | None:
    """The consumer's filter; raises FilterError, and InvalidInput for a payload that is none or not the queue's."""
    from bindery.store.consumer_filters import queue_payload  # noqa: PLC0415  # as above

    if text is None:
        return None
    return read_filter(text, dialect, queue_payload(directory, queue, text, vhost=vhost, payload=payload))


def _show(rows: pa.Table, *, as_json: bool) -> None:
    from bindery.router.message import MESSAGE_SCHEMA, from_batch  # noqa: PLC0415  # as above

    messages = from_batch(rows.select(MESSAGE_SCHEMA.names))
    if as_json:
        for message in messages:
            typer.echo(json.dumps(message.as_json(), ensure_ascii=False))
        return
    out = console()
    listed = [
        (
            f"{routing['stream']}:{routing['batch_id']}:{routing['seq']}",
            iso(moment),
            message.exchange,
            message.routing_key,
            _body(message.body, None if not out.is_terminal else _BODY),
        )
        for message, routing, moment in zip(
            messages, rows["routing"].to_pylist(), rows["routed_at"].to_pylist(), strict=True
        )
    ]
    show_table(_COLUMNS, listed, out=out)


def _body(body: bytes | None, limit: int | None) -> str:
    """A body as text, or in hexadecimal where it is none."""
    if body is None:
        return ""
    try:
        text = visible(body.decode("utf-8"))
    except UnicodeDecodeError:
        text = f"0x{body.hex()}"
    return text if limit is None or len(text) <= limit else f"{text[: limit - 1]}…"
