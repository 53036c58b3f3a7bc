"""`bindery topology`: versions of the topology, their differences, the way back, and export."""

from __future__ import annotations

import getpass
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from bindery.cli.documents import read_change, show_ignored
from bindery.cli.options import DATA, DataOption, JsonOption
from bindery.cli.redrive import moment
from bindery.cli.render import show_table
from bindery.router.error_text import visible
from bindery.router.errors import InUse, InvalidInput
from bindery.router.model import DEFAULT_VHOST
from bindery.router.moments import iso

if TYPE_CHECKING:
    from bindery.router.model import Topology
    from bindery.store.history import ObjectChange, VersionInfo
    from bindery.store.topology import TopologyStore

app = typer.Typer(help="The topology and its versions: show, compare, roll back, export.", no_args_is_help=True)

VersionOption = Annotated[int | None, typer.Option("--version", min=0, help="The state of this version.")]
AtOption = Annotated[str | None, typer.Option("--at", help="The state at this ISO 8601 time (UTC without a zone).")]
OutputOption = Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file.")]
#: Changes that are shown one by one to people.
_SHOWN = 50
_MARKS = {"created": "+", "deleted": "-", "updated": "~"}


@app.command()
def versions(
    data: DataOption = DATA,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Versions to list at most.")] = 20,
    before: Annotated[int | None, typer.Option("--before", min=0, help="Only versions below this one.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List versions, newest first: who changed what, when and why."""
    found = _store(data).history(before=before, limit=limit)
    if as_json:
        typer.echo(json.dumps([info.as_data() for info in found], ensure_ascii=False))
        return
    show_table(
        ("version", "when", "who", "what", "why"),
        [(info.version, iso(info.timestamp), info.author, _what(info), info.reason) for info in found],
    )


def _what(info: VersionInfo) -> str:
    return ", ".join(f"{_MARKS[change]}{_total(kinds)}" for change, kinds in info.counts.items())


@app.command()
def show(
    version: Annotated[int | None, typer.Argument(min=0, help="A version; the newest by default.")] = None,
    data: DataOption = DATA,
    as_json: JsonOption = False,
) -> None:
    """Show one version and what it changed, object by object."""
    from bindery.store.comparison import as_page  # noqa: PLC0415  # `bindery --help` does not wait for Delta

    store = _store(data)
    info = store.version(store.load().version if version is None else version)
    changes = store.diff(max(info.version - 1, 0), info.version)
    page = info.as_data() | as_page(changes, limit=len(changes))
    if as_json:
        typer.echo(json.dumps(page, ensure_ascii=False))
        return
    console = Console(soft_wrap=True, highlight=False)
    reason = f" ({visible(info.reason)})" if info.reason else ""
    console.print(Text(f"version {info.version}, {iso(info.timestamp)}, {visible(info.author)}{reason}"))
    _print_changes(console, page)


def _version(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise typer.BadParameter(f"{text!r} is no number of a version; a document is compared by --proposed {text}")
    return int(text)


@app.command()
def diff(
    base: Annotated[int | None, typer.Argument(metavar="FROM", parser=_version, help="The older version.")] = None,
    to: Annotated[int | None, typer.Argument(metavar="TO", parser=_version, help="The newest by default.")] = None,
    data: DataOption = DATA,
    vhost: Annotated[
        str | None, typer.Option("--vhost", help="Only this vhost; that of objects of a document that states none.")
    ] = None,
    proposed: Annotated[
        Path | None,
        typer.Option("--proposed", help="Compare now with this document of definitions or a change; - is stdin."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare two versions, or what `apply` would change with now; exit 1 when they differ.

    Example: bindery topology diff 3 --data ./data

    Example: bindery topology diff --proposed new.json --data ./data
    """
    from bindery.store.comparison import as_page  # noqa: PLC0415  # `bindery --help` does not wait for Delta

    if (base is None) == (proposed is None):
        raise InvalidInput("give a version, or --proposed with a file", where="diff", hint="bindery topology diff 3")
    store = _store(data)
    if proposed is not None:
        page = _compared(store, proposed, vhost)
    else:
        newest = store.load().version
        changes = [
            one for one in store.diff(base or 0, newest if to is None else to) if vhost is None or one.key[1] == vhost
        ]
        page = {"from": base, "to": newest if to is None else to, **as_page(changes, limit=len(changes))}
    if as_json:
        typer.echo(json.dumps(page, ensure_ascii=False))
    else:
        console = Console(soft_wrap=True, highlight=False)
        _print_changes(console, page)
        show_ignored(page.get("ignored", []))
        for key in page.get("absent", [])[:_SHOWN]:
            console.print(Text(f"? {key['kind']} {_name(key)} is not in the file and stays"))
    raise typer.Exit(1 if page["total"] else 0)


@app.command()
def rollback(
    to: Annotated[int, typer.Argument(min=0, help="The version whose state is to be the newest again.")],
    data: DataOption = DATA,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change; change nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Make the state of an older version the newest one: one new version, lineage ids included.

    Queues that come back are empty, and queues that go are emptied; their history stays. Users and
    permissions are no part of a version.
    """
    from bindery.store.comparison import as_page, protected_vhosts  # noqa: PLC0415  # `bindery --help` does not wait for Delta

    def check(present: Topology, changes: list[ObjectChange]) -> None:
        for vhost in protected_vhosts(present, changes):
            raise InUse(f"vhost {vhost!r} is protected from deletion", where="rollback", hint="lift its protection")

    store = _store(data)
    now = store.load().version
    changes = store.diff(now, to)
    console = Console(soft_wrap=True, highlight=False)
    if not as_json:
        _print_changes(console, as_page(changes, limit=_SHOWN))
    if changes and not dry_run and not yes and not typer.confirm(f"Roll back to version {to}?", err=True):
        raise typer.Exit(1)
    if not dry_run:
        edit = store.rollback(to, author=f"{getpass.getuser()} (bindery topology)", check=check)
        now, changes = edit.version, edit.result
    if as_json:
        typer.echo(json.dumps({"version": now, **as_page(changes, limit=len(changes))}, ensure_ascii=False))
        return
    console.print(f"topology version {now}" + (", nothing was changed" if dry_run else ""))


@app.command()
def export(
    data: DataOption = DATA,
    vhost: Annotated[str | None, typer.Option("--vhost", help="Only this vhost.")] = None,
    version: VersionOption = None,
    at: AtOption = None,
    output: OutputOption = None,
) -> None:
    """Write the topology as a definitions document; types and void arguments are kept.

    Users and permissions stay where they are; `GET /api/definitions` has them too.
    """
    from bindery.router.definitions import export as exported  # noqa: PLC0415  # `bindery --help` does not wait for Delta

    document = exported(_state(_store(data), version, at), vhost=vhost)
    text = json.dumps(document, ensure_ascii=False, indent=1)
    if output is None:
        typer.echo(text)
        return
    try:
        output.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"cannot write it: {error.strerror}", where=str(output)) from None


def _store(data: str) -> TopologyStore:
    from bindery.store.paths import DataDir  # noqa: PLC0415  # `bindery --help` does not wait for Delta
    from bindery.store.topology import TopologyStore  # noqa: PLC0415

    return TopologyStore(DataDir.open(data))


def _state(store: TopologyStore, version: int | None, at: str | None) -> Topology:
    if version is not None and at is not None:
        raise InvalidInput("--version and --at exclude each other", where="--at")
    return store.load(version=version, at=moment(at, "--at"))


def _compared(store: TopologyStore, path: Path, vhost: str | None) -> dict[str, Any]:
    from bindery.store.comparison import absent_objects, as_page  # noqa: PLC0415  # `bindery --help` does not wait for Delta
    from bindery.store.history import changes_between  # noqa: PLC0415

    change = read_change([path], vhost or DEFAULT_VHOST)
    topology = store.load()
    after = change.applied_to(topology)
    changes = changes_between(topology, after)
    absent = absent_objects(after, change.definitions)
    return {
        "base": topology.version,
        **as_page(changes, limit=len(changes)),
        "absent": [{"kind": kind, "vhost": where, "name": name} for kind, where, name in absent],
        "ignored": change.ignored,
    }


def _total(kinds: Any) -> str:
    return ", ".join(f"{number} {kind}" for kind, number in kinds.items())


def _name(change: dict[str, Any]) -> str:
    if change["kind"] == "vhost":
        return repr(visible(change["vhost"]))
    return f"{visible(change['name'])!r} in vhost {visible(change['vhost'])!r}"


def _print_changes(console: Console, page: dict[str, Any]) -> None:
    for change in page["changes"][:_SHOWN]:
        state = change["after"] or change["before"]
        shown = {key: value for key, value in state.items() if key not in ("name", "vhost", "id")}
        if change["change"] == "updated":
            shown = {key: value for key, value in shown.items() if change["before"].get(key) != value}
        detail = visible(json.dumps(shown, ensure_ascii=False))
        console.print(Text(f"{_MARKS[change['change']]} {change['kind']} {_name(change)}  {detail}"))
    if page["total"] > _SHOWN:
        console.print(f"and {page['total'] - min(_SHOWN, len(page['changes'])):,} further changes")
    if not page["total"]:
        console.print("no difference")
