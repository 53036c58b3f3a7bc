"""`bindery explain`: where a message goes, and why it does not come to a queue."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bindery.cli.documents import STDIN, read_change
from bindery.cli.explanation import show
from bindery.cli.filter import read_filter, read_message
from bindery.cli.names import misspelt_names
from bindery.cli.options import DATA, DataOption, JsonOption, PayloadOption, VhostOption
from bindery.cli.redrive import moment
from bindery.cli.render import console, refused_tree
from bindery.router.errors import InvalidInput
from bindery.router.filters import DIALECTS
from bindery.router.message import to_batch
from bindery.router.model import DEFAULT_VHOST
from bindery.router.moments import iso

if TYPE_CHECKING:
    from bindery.router.filters import Filter
    from bindery.router.model import Topology
    from bindery.store.paths import DataDir
    from bindery.store.recorded import RecordedMessage


def explain(
    data: DataOption = DATA,
    message: Annotated[
        Path | None, typer.Option("--message", help="A JSON file with one message; - reads standard input.")
    ] = None,
    row: Annotated[
        str | None, typer.Option("--row", help="A row of a queue or the unroutable table: STREAM:BATCH:NUMBER.")
    ] = None,
    find: Annotated[
        str | None, typer.Option("--find", help="A filter that finds the message among those on record.")
    ] = None,
    message_id: Annotated[
        str | None, typer.Option("--id", help="The message id of a message on record; with --find both hold.")
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option(
            "--source",
            help="Its place in the source, NAME=VALUE: file, topic, partition, offset, row_index.",
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", help="Of --find, --id, --source: routed at that time or later."),
    ] = None,
    dialect: Annotated[str, typer.Option("--dialect", help="Of --find: " + ", ".join(DIALECTS) + ".")] = "jms",
    payload: PayloadOption = None,
    queue: Annotated[
        list[str] | None, typer.Option("--queue", help="Say why the message does not come to this queue (repeatable).")
    ] = None,
    reach: Annotated[
        str | None, typer.Option("--reach", help="Say what would bring the message to this queue.")
    ] = None,
    vhost: VhostOption = DEFAULT_VHOST,
    version: Annotated[
        int | None, typer.Option("--version", help="The topology version; the newest by default.")
    ] = None,
    as_routed: Annotated[
        bool, typer.Option("--as-routed", help="With --row or --find: the version and clock that it was routed with.")
    ] = False,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            help="A topology version, or a document to apply first: definitions or a change; - reads standard input.",
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Messages that are explained of those found.")] = 1,
    everything: Annotated[
        bool, typer.Option("--all", help="With --queue: also the steps that do not lead to it.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Explain a message: every exchange it visits, what matches, what filters say, where it ends.

    The message is a file, a row on record, or found among those on record: by a filter, its message id, or its place in
    the source. Journals are looked through newest first, the newest two million rows, or with --since all since then.
    With --queue the answer says what concerns that
    queue: the way to it, or why the message does not come there: the nearest bindings, and the word, header or
    sub-expression that failed. With --reach it says what would bring the message to the queue: the smallest changes
    of the topology, as documents for `bindery apply`, and of the message. Of a record that never was a message it says
    what is wrong with it.
    """
    # Imported here so that `bindery --help` waits neither for Delta nor for the engine.
    from bindery.analytics.point import require_queue  # noqa: PLC0415
    from bindery.router.explain import Explainer  # noqa: PLC0415
    from bindery.router.message import from_batch  # noqa: PLC0415
    from bindery.router.suggestions import suggest  # noqa: PLC0415
    from bindery.store.paths import DataDir  # noqa: PLC0415
    from bindery.store.recorded import find_row, parse_row  # noqa: PLC0415
    from bindery.store.topology import TopologyStore  # noqa: PLC0415

    searched = find is not None or message_id is not None or bool(source)
    if (message is not None) + (row is not None) + searched != 1:
        raise InvalidInput(
            "one of --message, --row and --find is needed",
            where="explain",
            hint="--id and --source go with --find",
        )
    if since is not None and not searched:
        raise InvalidInput("--since goes with --find, --id and --source", where="explain")
    if payload is not None and find is None:
        raise InvalidInput("--payload goes with --find; other messages are read as the topology says", where="explain")
    if everything and not queue:
        raise InvalidInput("--all goes with --queue; without it every step is shown", where="explain")
    change = None
    if against is not None and against.isdecimal():
        if version is not None or as_routed:
            raise InvalidInput("a version --against, --version and --as-routed exclude each other", where="explain")
        version = int(against)
    elif against is not None:
        if Path(against) == STDIN == message:
            raise InvalidInput("standard input can be read once", where="--against")
        change = read_change([Path(against)], vhost)
    directory = DataDir.open(data)
    store = TopologyStore(directory)
    newest = store.load()
    recorded: list[RecordedMessage | None] = [None]
    if row is not None:
        recorded = [find_row(directory, newest, vhost, parse_row(row))]
    elif searched:
        condition = None if find is None else read_filter(find, dialect, payload)
        recorded = [*_found(directory, newest, vhost, condition, message_id, source or (), since, limit)]
    for one in recorded:
        if one is not None and one.refused is not None:
            if as_json:
                typer.echo(json.dumps({"on_record": on_record(one), "refused": one.refused}, ensure_ascii=False))
            else:
                console().print(refused_tree("The record is no message", one.refused))
            continue
        clock = time.time_ns() // 1_000_000
        wanted = version
        if one is not None and as_routed:
            wanted, clock = one.topology_version, one.clock_ms
        topology = store.load(version=wanted)
        if change is not None:
            topology.vhost(vhost)
            topology = change.applied_to(topology)
        for name in {*(queue or ()), *([] if reach is None else [reach])}:
            require_queue(topology, vhost, name)
        batch = to_batch([read_message(message)]) if message is not None else one.batch  # type: ignore[union-attr]
        (explanation,) = Explainer(topology, vhost).explain(batch, clock_ms=clock, queues=queue or ())
        report = explanation.as_data() | {"proposed": change is not None}
        if one is not None:
            report["on_record"] = on_record(one)
        if reach is not None:
            (stated,) = from_batch(batch)
            report["suggestions"] = suggest(topology, vhost, stated, reach, clock_ms=clock).as_data()
        if as_json:
            typer.echo(json.dumps(report, ensure_ascii=False))
        else:
            show(report, console(), everything=everything or not (queue or reach))


def _found(
    data: DataDir,
    topology: Topology,
    vhost: str,
    condition: Filter | None,
    message_id: str | None,
    source: Sequence[str],
    since: str | None,
    limit: int,
) -> list[RecordedMessage]:
    """The messages on record that options choose; says how far was looked where there may be more of them."""
    from bindery.store.consumer_filters import with_message_id  # noqa: PLC0415  # as above
    from bindery.store.recorded import find_matching, source_position  # noqa: PLC0415  # as above

    position = source_position(dict(_stated(one) for one in source)) if source else None
    wanted = with_message_id(condition, message_id)
    found = find_matching(data, topology, vhost, wanted, limit=limit, since=moment(since, "--since"), position=position)
    back_to = found.journals.back_to
    far = (
        None if back_to is None else f"journals were looked through back to {iso(back_to)}: --since looks further back"
    )
    if not found.messages:
        misspelt = None if condition is None else misspelt_names(data, vhost, condition)
        raise InvalidInput(
            "no message on record passes the filter" if condition is not None else "no message on record is that one",
            where="find",
            hint="; ".join(hint for hint in (misspelt, far) if hint is not None) or None,
        )
    if far is not None and len(found.messages) < limit:
        typer.echo(f"note: {far}", err=True)
    return found.messages


def _stated(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise InvalidInput(f"{text[:80]!r} names no value", where="--source", hint="NAME=VALUE, such as offset=77")
    return name, value


def on_record(one: RecordedMessage) -> dict[str, Any]:
    """Where a message stands on record, as JSON-ready data."""
    return {
        "row": f"{one.row.stream}:{one.row.batch_id}:{one.row.seq}",
        "queue": one.queue,
        "reason": one.reason,
        "journal": one.journal,
        "topology_version": one.topology_version,
        "clock_ms": one.clock_ms,
    }
