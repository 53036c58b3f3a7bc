"""`bindery explain`: where a message goes, and why it does not come to a queue."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from bindery.cli.documents import STDIN, read_change
from bindery.cli.filter import read_message
from bindery.cli.options import DATA, DataOption, JsonOption, VhostOption
from bindery.cli.render import console, counted, refused_tree
from bindery.router.error_text import visible
from bindery.router.errors import InvalidInput
from bindery.router.filters import DIALECTS, parse
from bindery.router.message import to_batch
from bindery.router.model import DEFAULT_VHOST

if TYPE_CHECKING:
    from bindery.store.recorded import RecordedMessage

#: How a step's verdict is shown: a sign, a colour and words.
_VERDICTS: Final = {
    "delivered": ("✓", "green", "delivered"),
    "forwarded": ("→", "cyan", "led on"),
    "filter": ("✗", "red", "its filter is not true"),
    "queue-filter": ("✗", "red", "the queue's filter is not true"),
    "exclusive-divert": ("✗", "yellow", "an exclusive divert took the message"),
}


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
    dialect: Annotated[str, typer.Option("--dialect", help="Of --find: " + ", ".join(DIALECTS) + ".")] = "jms",
    queue: Annotated[
        list[str] | None, typer.Option("--queue", help="Say why the message does not come to this queue (repeatable).")
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
    limit: Annotated[int, typer.Option("--limit", min=1, help="Messages that --find explains.")] = 1,
    as_json: JsonOption = False,
) -> None:
    """Explain a message: every exchange it visits, what matches, what filters say, where it ends.

    The message is a file, a row on record, or found by a filter. With --queue the answer says why it
    does not come to that queue: the nearest bindings, and the word, header or sub-expression that failed. Of a
    record that never was a message it says what is wrong with it.
    """
    # Imported here so that `bindery --help` waits neither for Delta nor for the engine.
    from bindery.router.explain import Explainer  # noqa: PLC0415
    from bindery.store.paths import DataDir  # noqa: PLC0415
    from bindery.store.recorded import find_matching, find_row, parse_row  # noqa: PLC0415
    from bindery.store.topology import TopologyStore  # noqa: PLC0415

    if sum(source is not None for source in (message, row, find)) != 1:
        raise InvalidInput("one of --message, --row and --find is needed", where="explain")
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
    elif find is not None:
        recorded = [*find_matching(directory, newest, vhost, parse(find, dialect), limit=limit)]
        if not recorded:
            raise InvalidInput("no message on record passes the filter", where="find")
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
        batch = to_batch([read_message(message)]) if message is not None else one.batch  # type: ignore[union-attr]
        (explanation,) = Explainer(topology, vhost).explain(batch, clock_ms=clock, queues=queue or ())
        report = explanation.as_data() | {"proposed": change is not None}
        if one is not None:
            report["on_record"] = on_record(one)
        if as_json:
            typer.echo(json.dumps(report, ensure_ascii=False))
        else:
            show(report, console())


def on_record(one: RecordedMessage) -> dict[str, Any]:
    """Where a message stands on record, as JSON-ready data."""
    return {
        "row": f"{one.row.stream}:{one.row.batch_id}:{one.row.seq}",
        "queue": one.queue,
        "reason": one.reason,
        "topology_version": one.topology_version,
        "clock_ms": one.clock_ms,
    }


def show(report: dict[str, Any], out: Console) -> None:
    """Render an explanation, given as data, for people."""
    for answer in report["why_not"]:
        out.print(_answer(answer))
    out.print(_path(report))


def _answer(answer: dict[str, Any]) -> Tree:
    name = visible(answer["queue"])
    if answer["reached"]:
        return Tree(Text(f"queue {name} gets the message", "green"))
    tree = Tree(Text(f"queue {name} does not get the message", "bold red"))
    for cause in answer["causes"]:
        branch = tree.add(Text(visible(cause["message"])))
        for line in _details(cause):
            branch.add(Text(visible(line), "dim"))
    if answer["further_causes"]:
        tree.add(Text(f"and {counted(answer['further_causes'], 'further way')} that did not lead there", "dim"))
    return tree


def _details(cause: dict[str, Any]) -> Iterator[str]:
    if cause["path"]:
        yield "the way: " + ", then ".join(_link(link) for link in cause["path"])
    for verdict in cause.get("filters", ()):
        yield f"{verdict['argument']}: {verdict['filter']}"


def _path(report: dict[str, Any]) -> Tree:
    version = f"topology version {report['topology_version']}" + (" with the proposed change" * report["proposed"])
    tree = Tree(Text(f"The message under {version}", "bold"))
    if "on_record" in report:
        record = report["on_record"]
        place = f"queue {record['queue']}" if record["queue"] is not None else f"unroutable, {record['reason']}"
        tree.add(Text(visible(f"on record as {record['row']}: {place}"), "dim"))
    for visit in report["visits"]:
        _visit(tree, visit)
    queues = report["queues"]
    if queues:
        tree.add(Text("queues: " + visible(", ".join(queues)), "bold green"))
    else:
        lost = report["unroutable"]
        detail = f" ({lost['detail']})" if lost["detail"] else ""
        tree.add(Text(visible(f"unroutable: {lost['reason']}, {lost['disposition']}{detail}"), "bold red"))
    return tree


def _visit(tree: Tree, visit: dict[str, Any]) -> None:
    keys = ", ".join(repr(key) for key in visit["keys"])
    came = ", ".join(_arrival(arrival) for arrival in visit["arrivals"])
    name = visit["exchange"] or "(default)"
    plural = "" if len(visit["keys"]) == 1 else "s"
    head = f"{visit['number']}. {visit['type']} exchange {name}, key{plural} {keys} ({came})"
    branch = tree.add(Text(visible(head), "bold"))
    for step in visit["steps"]:
        sign, colour, words = _VERDICTS[step["verdict"]]
        onward = f" {step['visit']}" if "visit" in step else ""
        line = branch.add(Text(visible(f"{sign} {_link(step)}: {words}{onward}"), colour))
        for verdict in step["filters"]:
            line.add(Text(visible(f"{verdict['argument']} is {verdict['result']}: {verdict['filter']}"), "dim"))
            for culprit in verdict["culprits"]:
                line.add(Text(visible(culprit["message"])))
    if visit["further_steps"]:
        branch.add(Text(f"and {counted(visit['further_steps'], 'further step')}", "dim"))
    if visit["unmatched"]:
        verb = "does" if visit["unmatched"] == 1 else "do"
        branch.add(Text(f"{counted(visit['unmatched'], 'binding')} {verb} not match", "dim"))
    if visit["not_evaluated"]:
        unseen = counted(visit["not_evaluated"], "binding")
        branch.add(Text(f"{unseen} not looked at: an exclusive divert fired", "yellow"))


def _arrival(arrival: dict[str, Any]) -> str:
    if arrival["kind"] == "publish":
        return "published there"
    number = f" {arrival['id']}" if "id" in arrival else ""
    return f"from {arrival['visit']} by {arrival['kind']}{number}"


def _link(link: dict[str, Any]) -> str:
    target = f"{link['destination_type']} {link['destination'] or '(default)'}"
    source = link["source"] or "(default)"
    if link["kind"] == "divert":
        return f"divert {link['name']} from {source} to {target}"
    if link["kind"] == "binding":
        return f"binding {link['id']} from {source} to {target}, key {link['routing_key']!r}{_criteria(link)}"
    return f"{link['kind']} from {source} to {target}"


def _criteria(link: dict[str, Any]) -> str:
    shown = {name: value for name, value in link.get("arguments", {}).items() if not name.startswith("x-filter")}
    return f", {json.dumps(shown, ensure_ascii=False)}" if shown else ""
