"""`bindery apply`: a topology becomes what documents say, after a plan, in one version."""

from __future__ import annotations

import getpass
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.text import Text

from bindery.cli.documents import STDIN, print_refusal, read_change, show_idle, show_ignored
from bindery.cli.options import DATA, DataOption, JsonOption
from bindery.cli.render import console
from bindery.router.error_text import counted, visible
from bindery.router.errors import CommitConflict, DefinitionsRefused
from bindery.router.model import DEFAULT_VHOST

if TYPE_CHECKING:
    from bindery.router.declarations import TopologyEditor
    from bindery.router.model import Topology
    from bindery.store.access import AccessEditor
    from bindery.store.paths import DataDir
    from bindery.store.plans import Plan
    from bindery.store.topology import TopologyStore

#: What a change is -> its sign and colour.
_SIGNS: Final = {"created": ("+", "green"), "updated": ("~", "yellow"), "deleted": ("-", "red")}
#: Properties of an entry that the subject of a line says, and values of others that nobody has to say.
_NAMING: Final = frozenset({"name", "vhost", "source", "destination", "destination_type", "component"})
_PLAIN: Final[dict[str, Any]] = {
    **dict.fromkeys(("auto_delete", "internal", "exclusive", "tracing"), False),
    **dict.fromkeys(("filter", "description", "transform"), ""),
    **dict.fromkeys(("routing_key", "default_queue_type", "compat"), None),
    "durable": True,
    "tags": [],
    "priority": 0,
    "apply-to": "all",
}


def apply(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="Documents, JSON or YAML, of definitions or a change; several are one change; - reads standard input.",
        ),
    ],
    data: DataOption = DATA,
    vhost: Annotated[
        str, typer.Option("--vhost", help="The vhost of objects in documents that state none.")
    ] = DEFAULT_VHOST,
    prune: Annotated[
        bool, typer.Option("--prune", help="Delete what the documents do not name, in the vhosts that they name.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan; change nothing.")] = False,
    reason: Annotated[str | None, typer.Option("--reason", help="Why; the version keeps it.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Make the topology what documents say: show the plan, then one new version, or none.

    Objects that exist get the properties given. What does not change makes no version; a document with an
    error changes nothing (exit 2), and every error is named with its line and column.

    Example: bindery apply topology.yaml --dry-run

    Example: bindery apply vhosts.yaml flights.yaml --prune --reason "late flights"
    """
    # Imported here so that `bindery --help` does not wait for Delta.
    from bindery.router.declarations import TopologyEditor  # noqa: PLC0415
    from bindery.store import plans  # noqa: PLC0415
    from bindery.store.paths import DataDir  # noqa: PLC0415
    from bindery.store.topology import TopologyStore  # noqa: PLC0415

    try:
        change = read_change(files, vhost, prune=prune)
        folder = DataDir.named(data)
        store, base = present(folder)
        plan = plans.planned(TopologyEditor(base), change)
    except DefinitionsRefused as error:
        if as_json:
            raise print_refusal(error) from None
        raise
    plan.rows = {} if store is None else plans.rows_lost(folder, plan)
    if not as_json:
        show_ignored(change.ignored)
        show_idle(plan.report.without_effect)
        _show(plan)
    version = max(base.version, 0)
    made = plan.changes_something and not dry_run
    if made:

        def make(editor: TopologyEditor) -> None:
            if editor.topology.version == base.version:
                editor.replay(plan.editor.changes)
                editor.dropped |= plan.editor.dropped
            elif plans.planned(editor, change).essence() != plan.essence():
                raise CommitConflict(
                    "somebody else changed the topology meanwhile, and with it the plan; nothing was changed",
                    where="topology",
                    hint="apply again",
                )

        names = ", ".join("standard input" if path == STDIN else path.name for path in files)
        author = f"{getpass.getuser()} (bindery apply)"
        store = store or TopologyStore(DataDir.open(data, create=True))
        version = store.edit(make, author=author, reason=f"apply of {names}" if reason is None else reason).version
        _revoke(folder, plan.vhosts_gone, author)
    if as_json:
        data_of = plan.as_data() | {"ignored": change.ignored, "dry_run": dry_run, "version": version}
        typer.echo(json.dumps(data_of, ensure_ascii=False))
    elif made:
        typer.echo(f"Applied: {_summary(plan, 'added', 'changed', 'deleted')}; topology version {version}")
    else:
        typer.echo(f"topology version {version}, nothing was changed")


def present(folder: DataDir) -> tuple[TopologyStore | None, Topology]:
    """The newest topology; where there is none yet, that of a new installation, which is not made."""
    from bindery.router.model import Topology  # noqa: PLC0415
    from bindery.store.paths import DataDir  # noqa: PLC0415
    from bindery.store.tables import exists  # noqa: PLC0415
    from bindery.store.topology import TopologyStore  # noqa: PLC0415

    if Path(folder.root).is_file():
        DataDir.open(folder.root)  # refuses it
    if exists(folder.topology):
        store = TopologyStore(DataDir.open(folder.root))
        present = store.load()
        if present.version > 0:
            return store, present
    return None, Topology.empty()


def _revoke(folder: DataDir, vhosts: Sequence[str], author: str) -> None:
    """Revoke what was granted in vhosts that were deleted, so that nobody has it when one is created again."""
    from bindery.router.errors import BinderyError  # noqa: PLC0415
    from bindery.store.access import AccessStore  # noqa: PLC0415
    from bindery.store.places import at  # noqa: PLC0415

    def change(editor: AccessEditor) -> None:
        for vhost in vhosts:
            editor.forget_vhost(vhost)

    if not vhosts or not at(folder.access).is_folder():
        return
    try:
        AccessStore(folder.access).edit(change, author=author, action=f"deleted vhosts {sorted(vhosts)!r}")
    except BinderyError as error:
        typer.echo(f"warning: permissions in deleted vhosts were not revoked: {visible(error.message)}", err=True)


def _summary(plan: Plan, *verbs: str) -> str:
    """`3 added, 1 changed, 2 deleted`, in the verbs given."""
    return ", ".join(f"{plan.count(what):,} {verb}" for what, verb in zip(_SIGNS, verbs, strict=True))


def _show(plan: Plan) -> None:
    out = console()
    for one in plan.changes:
        sign, colour = _SIGNS[one.change]
        rows = plan.rows.get(one.key[1:], 0) if one.key[0] == "queue" else 0
        lost = f" ({counted(rows, 'message')} in it)" if rows else ""
        out.print(Text(visible(f"{sign} {_line(one.as_data())}{lost}"), colour))
    for vhost, name in plan.emptied:
        held = counted(plan.rows.get((vhost, name), 0), "message")
        out.print(Text(visible(f"! queue {name}{_in(vhost)} is deleted and declared again ({held} in it)"), "red"))
    if plan.changes_something:
        typer.echo(f"Plan: {_summary(plan, 'to add', 'to change', 'to delete')}")


def _line(change: dict[str, Any]) -> str:
    """A change: what it is about and, of an update, each property before and after."""
    kind, before, after = change["kind"], change["before"], change["after"]
    state = after or before
    if kind == "binding":
        subject = f"binding {state['source']} -> {state['destination_type']} {state['destination']}"
        subject += f", key {state['routing_key']!r}"
    elif kind == "divert":
        subject = f"divert {change['name']}: {state['source']} -> exchange {state['destination']}"
    elif kind == "vhost":
        subject = f"vhost {change['vhost']}"
    else:
        subject = f"{kind.replace('parameter:', 'parameter ')} {change['name']}"
    if kind != "vhost":
        subject += _in(change["vhost"])
    if before is not None and after is not None:
        old, new = _flat(before), _flat(after)
        differing = (key for key in sorted(old.keys() | new.keys()) if old.get(key, ...) != new.get(key, ...))
        return f"{subject}: " + ", ".join(f"{key} {_json(old, key)} -> {_json(new, key)}" for key in differing)
    shown = {
        key: value
        for key, value in _flat(state).items()
        if key not in _NAMING | ({"routing_key"} if kind == "binding" else set())
        and (key not in _PLAIN or value != _PLAIN[key])
    }
    # of bindings between the same two by the same key the arguments tell which one goes
    told = after is not None or kind == "binding"
    return subject + (": " + ", ".join(f"{key} {_json(shown, key)}" for key in shown) if shown and told else "")


def _in(vhost: str) -> str:
    return "" if vhost in ("", DEFAULT_VHOST) else f" in vhost {vhost}"


def _json(state: dict[str, Any], key: str) -> str:
    return json.dumps(state[key], ensure_ascii=False) if key in state else "(none)"


def _flat(state: dict[str, Any]) -> dict[str, Any]:
    """An entry with what stands in its objects as properties of their own: `arguments.alternate-exchange`."""
    flat: dict[str, Any] = {}
    for key, value in state.items():
        if isinstance(value, dict) and key in ("arguments", "definition", "value"):
            flat |= {f"{key}.{inner}": content for inner, content in value.items()}
        elif key not in ("id", "metadata", "limits"):
            flat[key] = value
    return flat
