"""What a shadow found: for people, as JSON, and as a page of HTML with a picture."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.text import Text

from bindery.cli import written
from bindery.cli.bars import Bar, draw
from bindery.cli.written import page, shown
from bindery.router.error_text import counted, visible
from bindery.router.moments import iso

if TYPE_CHECKING:
    from bindery.jobs.shadowing.shadow import Shadow
    from bindery.router.errors import BinderyError

_DECIMALS: Final = 1


def as_report(shadow: Shadow, failure: BinderyError | None = None) -> dict[str, Any]:
    """What a shadow found, as JSON-ready data; `failure` is what ended it before its time."""
    tally, tap = shadow.tally, shadow.tap
    queues: list[dict[str, Any]] = [
        {"queue": name, "both": both, "only_there": there, "only_here": here}
        for name, (both, there, here) in tally.queues.items()
    ]
    queues.sort(key=lambda one: (-one["only_there"] - one["only_here"], -one["both"], one["queue"]))
    return {
        "broker": str(shadow.address),
        "vhost": shadow.address.vhost,
        "compat": shadow.compat,
        "began": iso(datetime.fromtimestamp(shadow.began, UTC)),
        "seconds": round(shadow.ended - shadow.began, _DECIMALS),
        "failure": None if failure is None else failure.message,
        "compared": tally.compared,
        "equal": tally.equal,
        "differing": tally.differing,
        "topology_moved": tally.moved,
        "not_comparable": dict(tally.refused.most_common()),
        "classes": [one.as_data() for one in tally.classes],
        "messages_of_further_classes": tally.beyond,
        "queues": queues,
        "topology": {
            "looks": shadow.looks,
            "changes": shadow.changes,
            "objects": {} if shadow.look is None else dict(shadow.look.carried.counts),
        },
        "nodes": {"running": shadow.nodes, "seen": sorted(tally.nodes)},
        "tap": {
            "messages": tap.messages,
            "bytes": tap.bytes,
            "marks": tap.marks,
            "queues": 1,
            "exchanges": 1,
            "bindings": 2,
            "firehose": "turned on for the time" if tap.answers else "was on, and stays on",
            "dropped": tap.overflowed,
            "left": tap.left,
        },
    }


def show(report: Mapping[str, Any], out: Console, path: Path | None) -> None:
    """Print the report, or its first lines where it is in a file."""
    for line in _summary(report) if path is not None else _text(report):
        out.print(line, soft_wrap=True)
    if path is not None:
        out.print(f"see {path}", soft_wrap=True, markup=False)


def write(path: Path, report: Mapping[str, Any]) -> None:
    """Write the report in the form that the file's name ends with; raises InvalidInput where it cannot be written."""
    written.write(
        path,
        report,
        text=lambda: "".join(f"{line.plain}\n" for line in _text(report)),
        html=lambda: page(_title(report), "\n".join(_sections(report))),
    )


def _title(report: Mapping[str, Any]) -> str:
    return f"Shadow of vhost {report['vhost']} of {report['broker']}"


def _summary(report: Mapping[str, Any]) -> Iterator[Text]:
    differs = report["differing"]
    style = "bold red" if differs else "bold green" if report["compared"] else "bold yellow"
    yield Text(
        f"{counted(report['compared'], 'message')} compared: {report['equal']:,} equal, {differs:,} different", style
    )
    if report["failure"] is not None:
        yield Text(visible(f"it ended before its time: {report['failure']}"), "red")
    if not report["compared"]:
        yield Text("no message was compared: nothing is known of how messages are routed", "yellow")
    if report["topology_moved"]:
        yield Text(f"not compared since the topology moved: {report['topology_moved']:,}")
    for reason, number in report["not_comparable"].items():
        yield Text(visible(f"not comparable: {number:,}: {reason}"))
    nodes = report["nodes"]
    unseen = sorted(set(nodes["running"]) - set(nodes["seen"]))
    if unseen and len(nodes["running"]) > 1:
        names = ", ".join(unseen)
        yield Text(visible(f"no message was seen of publishers at {names}: the firehose is a node's own"), "yellow")
    yield Text(_cost(report))


def _cost(report: Mapping[str, Any]) -> str:
    tap = report["tap"]
    cost = (
        f"tap: {counted(tap['messages'], 'message')} and {tap['bytes']:,} bytes copied in {report['seconds']:,} s, "
        f"by 1 exclusive queue, 1 exchange, 2 bindings; marks: {tap['marks']:,}; the firehose {tap['firehose']}"
    )
    if tap["dropped"]:
        cost += "; its queue was full, and the broker dropped the oldest of it"
    return cost + (f"; {tap['left']}" if tap["left"] else "; removed")


def _text(report: Mapping[str, Any]) -> Iterator[Text]:
    yield from _summary(report)
    topology = report["topology"]
    objects = ", ".join(f"{number:,} {what}" for what, number in topology["objects"].items())
    yield Text(f"topology: looks: {topology['looks']:,}, changes: {topology['changes']:,}; {objects}")
    for one in report["classes"]:
        yield Text(f"{counted(one['messages'], 'message')} to exchange {visible(_exchange(one))}", "bold")
        for line in _lines(one):
            yield Text(f"  {visible(line)}")
        yield Text(f"  example: {visible(_example(one))}", "dim")
    if report["messages_of_further_classes"]:
        yield Text(f"and {counted(report['messages_of_further_classes'], 'message')} of further classes")


def _exchange(one: Mapping[str, Any]) -> str:
    return str(one["exchange"]) or "(default)"


def _lines(one: Mapping[str, Any]) -> Iterator[str]:
    for side, words in (("only_there", "only the broker gives them to"), ("only_here", "only here they come to")):
        for queue in one[side]:
            yield f"{words} queue {queue}"
            yield from (f"  {why}" for why in one["reasons"][queue])
    if one["further_queues"]:
        yield f"and {counted(one['further_queues'], 'further queue')}"


def _example(one: Mapping[str, Any]) -> str:
    return json.dumps(one["example"], ensure_ascii=False)


def picture(report: Mapping[str, Any]) -> str:
    """A bar per queue, those that differ most first, as SVG."""
    bars = [
        Bar(one["queue"], one["both"], one["only_here"], one["only_there"], _change(one)) for one in report["queues"]
    ]
    line = (
        f"{report['compared']:,} messages compared, {report['differing']:,} different, "
        f"{report['topology_moved']:,} while the topology moved"
    )
    return draw(bars, ("in both", "only here", "only in the broker"), title=_title(report), line=line)


def _change(one: Mapping[str, Any]) -> str:
    words = (("only_here", "only here"), ("only_there", "only there"))
    return ", ".join(f"{one[side]:,} {word}" for side, word in words if one[side]) or "equal"


def _sections(report: Mapping[str, Any]) -> Iterator[str]:
    for line in _summary(report):
        yield f"<p>{shown(line.plain)}</p>"
    yield picture(report)
    if report["classes"]:
        yield "<h2>What went elsewhere</h2>"
        yield "<table><thead><tr><th>messages</th><th>exchange</th><th>why</th></tr></thead><tbody>"
        for one in report["classes"]:
            lines = "<br>".join(shown(line.strip()) for line in _lines(one))
            yield (
                f"<tr><td>{one['messages']:,}</td><td><b>{shown(_exchange(one))}</b></td>"
                f"<td>{lines}<br>Example: <code>{shown(_example(one))}</code></td></tr>"
            )
        yield "</tbody></table>"
    if report["messages_of_further_classes"]:
        yield f"<p>And {counted(report['messages_of_further_classes'], 'message')} of further classes.</p>"
    if report["queues"]:
        yield "<h2>Queues</h2>"
        yield (
            "<table><thead><tr><th>queue</th><th>in both</th><th>only in the broker</th><th>only here</th></tr></thead>"
            "<tbody>"
        )
        for queue in report["queues"]:
            numbers = "".join(f"<td>{queue[side]:,}</td>" for side in ("both", "only_there", "only_here"))
            yield f"<tr><td>{shown(queue['queue'])}</td>{numbers}</tr>"
        yield "</tbody></table>"
