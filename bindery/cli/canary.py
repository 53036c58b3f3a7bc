"""`bindery canary`: a changed topology tried on a share or a filter of the messages, promoted or rolled back."""

from __future__ import annotations

import getpass
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.text import Text

from bindery.cli.documents import read_change, show_ignored
from bindery.cli.options import DATA, DataOption, JsonOption, VhostOption
from bindery.cli.render import console, show_table
from bindery.router.error_text import counted, visible
from bindery.router.errors import InvalidInput
from bindery.router.model import DEFAULT_VHOST

if TYPE_CHECKING:
    from bindery.store.canaries import Outcome
    from bindery.store.topology import TopologyStore

app = typer.Typer(
    help="A changed topology on a share or a filter of the messages: begin, look, promote, roll back.",
    no_args_is_help=True,
)

ShareOption = Annotated[
    float | None, typer.Option("--share", help="Of the messages that the filter accepts, above 0 and up to 1.")
]
FilterOption = Annotated[
    str | None, typer.Option("--filter", help="Only messages that pass this filter: a text, or a filter set as JSON.")
]
DialectOption = Annotated[str | None, typer.Option("--dialect", help="The language of the filter; jms by default.")]
DeliverOption = Annotated[
    bool | None,
    typer.Option("--deliver/--compare-only", help="Deliver the canary's messages by the candidate, or only compare."),
]
CandidateOption = Annotated[
    int | None, typer.Option("--version", min=0, help="Refuse unless this version is the candidate.")
]
#: Queues that the terminal lists.
_LISTED: Final = 40
_MARKS: Final = {"created": "+", "deleted": "-", "updated": "~"}


@app.command()
def start(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE...", help="Documents, JSON or YAML, of definitions or a change; - reads standard input."
        ),
    ] = None,
    data: DataOption = DATA,
    vhost: VhostOption = DEFAULT_VHOST,
    version: Annotated[
        int | None, typer.Option("--version", min=0, help="Try the vhost as this topology version has it.")
    ] = None,
    share: ShareOption = None,
    filter: FilterOption = None,
    dialect: DialectOption = None,
    deliver: DeliverOption = None,
    as_json: JsonOption = False,
) -> None:
    """Begin a canary: the messages that are meant go by the changed topology from the next batch on.

    The others go by the present one. The same command again changes nothing; with another change it begins anew.

    Example: bindery canary start change.yaml --share 0.05

    Example: bindery canary start change.yaml --filter "region = 'EU'" --compare-only
    """
    if (version is None) == (not files):
        raise InvalidInput("give documents, or --version", where="start", hint="bindery canary start change.yaml")
    from bindery.store import canaries  # noqa: PLC0415  # `bindery --help` does not wait for Delta

    change = read_change(files, vhost) if files else None
    request = canaries.Request(change, version, share, _filter(filter), dialect, deliver)
    if change is not None and not as_json:
        show_ignored(change.ignored)
    _show_outcome(canaries.put(_store(data), vhost, request, author=_author()), as_json, "runs already")


@app.command("set")
def set_(
    data: DataOption = DATA,
    vhost: VhostOption = DEFAULT_VHOST,
    share: ShareOption = None,
    filter: FilterOption = None,
    dialect: DialectOption = None,
    deliver: DeliverOption = None,
    as_json: JsonOption = False,
) -> None:
    """Change which messages the canary is tried on, or whether they are delivered.

    A message that is in the canary stays in it when the share grows.

    Example: bindery canary set --share 0.25
    """
    from bindery.store import canaries  # noqa: PLC0415  # `bindery --help` does not wait for Delta

    request = canaries.Request(None, None, share, _filter(filter), dialect, deliver)
    _show_outcome(canaries.put(_store(data), vhost, request, author=_author()), as_json, "is so already")


@app.command()
def status(data: DataOption = DATA, vhost: VhostOption = DEFAULT_VHOST, as_json: JsonOption = False) -> None:
    """Show the canary, what it changes, and how its messages go by the one and the other topology."""
    from bindery.jobs.canary_report import report  # noqa: PLC0415  # `bindery --help` does not wait for Delta
    from bindery.store.kept_totals import manifest_totals  # noqa: PLC0415

    store = _store(data)
    found = report(store.data, store, manifest_totals(store.data).totals(), vhost)
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False))
    else:
        _show(found)


@app.command()
def promote(
    data: DataOption = DATA,
    vhost: VhostOption = DEFAULT_VHOST,
    version: CandidateOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make the candidate the topology for every message, in one new version; repeated it changes nothing."""
    from bindery.store import canaries  # noqa: PLC0415  # `bindery --help` does not wait for Delta

    outcome = canaries.promote(_store(data), vhost, author=_author(), version=version)
    _show_outcome(outcome, as_json, "was promoted before")


@app.command()
def rollback(
    data: DataOption = DATA,
    vhost: VhostOption = DEFAULT_VHOST,
    version: CandidateOption = None,
    as_json: JsonOption = False,
) -> None:
    """End the canary: every message goes by the present topology again; repeated it changes nothing.

    Queues that were declared for it stay, with their messages.
    """
    from bindery.store import canaries  # noqa: PLC0415  # `bindery --help` does not wait for Delta

    outcome = canaries.roll_back(_store(data), vhost, author=_author(), version=version)
    _show_outcome(outcome, as_json, "was rolled back before")


def _store(data: str) -> TopologyStore:
    from bindery.store.paths import DataDir  # noqa: PLC0415  # `bindery --help` does not wait for Delta
    from bindery.store.topology import TopologyStore  # noqa: PLC0415

    return TopologyStore(DataDir.open(data))


def _author() -> str:
    return f"{getpass.getuser()} (bindery canary)"


def _filter(text: str | None) -> object:
    """A filter as it was typed: the JSON of a filter set, or a text."""
    if text is None or not text.lstrip().startswith("{"):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidInput("the filter begins as a filter set and is no JSON", where="--filter") from None


def _show_outcome(outcome: Outcome, as_json: bool, same: str) -> None:
    found = outcome.as_data()
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False))
        return
    typer.echo(_line(found["canary"]) if outcome.changed else f"{_line(found['canary'])}: {same}")
    if outcome.canary.queues and outcome.canary.state == "rolled back":
        typer.echo(f"queues that were declared for it stay: {visible(', '.join(outcome.canary.queues))}")
    typer.echo(f"topology version {outcome.version}" + ("" if outcome.changed else ", nothing was changed"))


def _line(canary: dict[str, Any]) -> str:
    """What a canary is, on a line."""
    meant = "all messages" if canary["share"] == 1 else f"{canary['share']:.10g} of the messages"
    if canary["filter"] is not None:
        text = canary["filter"] if isinstance(canary["filter"], str) else json.dumps(canary["filter"])
        meant += f" with {visible(text)}"
    how = "" if canary["deliver"] else ", compared only"
    return (
        f"canary in vhost {visible(canary['vhost'])}: version {canary['version']} for {meant}{how}, {canary['state']}"
    )


def _show(found: dict[str, Any]) -> None:
    out = console()
    canary, comparison = found["canary"], found["comparison"]
    out.print(Text(f"{_line(canary)} since {canary['since']}, by {visible(canary['by'])}"))
    for one in canary["conflicts"]:
        out.print(Text(visible(f"conflict: the topology has changed {one['kind']} {one['name']} otherwise"), "red"))
    for one in found["change"].get("changes", ())[:_LISTED]:
        state = one["after"] or one["before"]
        shown = {key: value for key, value in state.items() if key not in ("name", "vhost", "id")}
        name = f" {one['name']}" if one["kind"] != "binding" else ""
        out.print(Text(visible(f"{_MARKS[one['change']]} {one['kind']}{name} {json.dumps(shown, ensure_ascii=False)}")))
    messages = counted(comparison["messages"], "message")
    out.print(f"{messages} compared: {comparison['equal']:,} equal, {comparison['differing']:,} differing")
    rows = ([queue[name] for name in ("queue", "gained", "lost")] for queue in comparison["queues"][:_LISTED])
    if comparison["queues"]:
        show_table(("queue", "gained", "lost"), rows, out=out)
    before, after = (comparison["unroutable"][side] for side in ("before", "after"))
    for reason in sorted(before.keys() | after.keys()):
        now, then = before.get(reason, 0), after.get(reason, 0)
        out.print(f"unroutable, {reason}: {now:,} by the present, {then:,} by the candidate")
    for queue in comparison["queues"][:_LISTED]:
        for one in queue["examples"]:
            why = "; ".join((*one.get("because", ()), *one.get("not_because", ())))
            said = f"{queue['queue']}: {one['direction']} {one['row']}" + (f": {why}" if why else "")
            out.print(Text(visible(said)))
