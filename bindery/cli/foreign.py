"""`bindery import --from`: another broker's configuration, with a report of what becomes of each of its objects."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import typer

from bindery.cli import fidelity
from bindery.cli.declaring import declare, show_counts
from bindery.cli.documents import STDIN, content_of, print_refusal
from bindery.cli.render import console
from bindery.router.compat import MODES, mode_named
from bindery.router.errors import DefinitionsRefused, InvalidInput
from bindery.router.importers import KINDS, SourceKind
from bindery.router.spelling import did_you_mean, nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bindery.router.definitions import Definitions
    from bindery.router.importers.objects import SourceObject
    from bindery.router.importers.settling import Settled
    from bindery.router.model import Topology
    from bindery.store.access import Access

#: The exit code when --strict refuses: a check failed.
_UNFAITHFUL = 1
#: What a source begins with that is no file: a URL, or where one is kept.
_SCHEMES = ("http", "https", "env", "file")


@dataclass(frozen=True, slots=True)
class Foreign:
    """A configuration that is to be imported: where it is, its kind, and what is wanted of it."""

    source: str
    kind: str
    data: str
    vhost: str | None
    overwrite: bool
    access: bool
    password: str | None
    compat: str | None

    def carry_over(self, *, strict: bool, dry_run: bool, report: Path | None, as_json: bool) -> None:
        """Report what becomes of each object, and import what can be, unless it is a dry run or not faithful enough.

        Raises InvalidInput, DefinitionsRefused, ManagementFailed, and typer.Exit(1) where `strict` finds a difference.
        """
        from bindery.cli.apply import present  # noqa: PLC0415  # `bindery --help` does not wait for Delta
        from bindery.router.importers.settling import settle  # noqa: PLC0415
        from bindery.store.paths import DataDir  # noqa: PLC0415

        kind = self._kind()
        if report is not None:
            fidelity.check_report(report, self.source)
        name, raw = self._content(kind)
        try:
            objects = kind.read(name, raw, access=self.access)
            base = present(DataDir.named(self.data))[1]
            if self.access:
                self._leave_out_grants(objects, base)
            settled = settle(objects, base, vhost=self.vhost, compat=self.compat)
            found = fidelity.as_report(self.kind, name, settled.as_data())
            if report is not None:
                fidelity.write_report(report, found)
            refused = strict and not settled.faithful
            done = {} if refused else self._import(settled, base, name, dry_run=dry_run)
        except DefinitionsRefused as error:
            if as_json:
                raise print_refusal(error) from None
            raise
        if as_json:
            typer.echo(json.dumps({**done, "fidelity": found}))
        else:
            if report is None:
                fidelity.show_report(found, console())
            else:
                typer.echo(f"{fidelity.summary(found)}; see {report}")
            if done:
                show_counts(done)
                typer.echo(f"topology version {done['version']}")
            else:
                typer.echo(
                    "nothing was imported: " + ("not everything is carried over exactly" if refused else "a dry run")
                )
        if refused:
            raise typer.Exit(_UNFAITHFUL)

    def _kind(self) -> SourceKind:
        if self.kind not in KINDS:
            whole = [name for name in KINDS if self.kind and self.kind.lower() in name]
            meant = whole[0] if len(whole) == 1 else nearest(self.kind, sorted(KINDS))
            hint = did_you_mean(meant, "kinds: " + ", ".join(KINDS))
            raise InvalidInput(f"no configuration is called {self.kind!r}", where="--from", hint=hint)
        kind = KINDS[self.kind]
        if self.access and not kind.has_access:
            raise InvalidInput(f"no users and permissions of {kind.title} are carried over", where="--access")
        if self.compat is not None:
            mode_of(self.kind, kind.title, self.compat)
        if self.access and self.vhost is not None:
            raise InvalidInput("permissions name the vhosts of the source", where="--access", hint="without --vhost")
        return kind

    def _content(self, kind: SourceKind) -> tuple[str, bytes]:
        """The name of the document, without credentials, and its bytes."""
        scheme, colon, _ = self.source.partition(":")
        is_address = bool(colon) and scheme.lower() in _SCHEMES
        if "://" in self.source and not is_address:
            raise InvalidInput("this is no URL of a management API", where="URL", hint="http://HOST:15672")
        if is_address:
            if not kind.is_live:
                raise InvalidInput(f"a configuration of {kind.title} is a file", where=f"--from {self.kind}")
            from bindery.cli.management_api import ManagementApi  # noqa: PLC0415

            api = ManagementApi(self.source, self.password)
            if api.is_open:
                typer.echo(f"warning: the password goes to {api.name} unencrypted", err=True)
            return api.name, api.definitions()
        if self.password is not None:
            raise InvalidInput("goes with a URL", where="--password")
        path = Path(self.source)
        return "<stdin>" if path == STDIN else str(path), content_of(path)

    def _import(self, settled: Settled, base: Topology, name: str, *, dry_run: bool) -> dict[str, Any]:
        """What was done; a dry run finds what is in the way in `base`, does nothing and gives nothing."""
        from bindery.router.declarations import TopologyEditor  # noqa: PLC0415
        from bindery.router.definitions import apply  # noqa: PLC0415

        if self.access:
            self._put_access(settled.definitions, settled, name, dry=True)
        try:
            if dry_run:
                apply(settled.definitions, TopologyEditor(base), overwrite=self.overwrite)
                return {}
            edit = declare(settled.definitions, self.data, Path(name).name, overwrite=self.overwrite)
        except DefinitionsRefused as error:
            raise _in_words_of_the_source(error, settled) from None
        if self.access:
            self._put_access(settled.definitions, settled, name, dry=False)
        return edit.result.as_data() | {"version": edit.version}

    def _present_access(self) -> Access:
        from bindery.store.access import Access, AccessStore  # noqa: PLC0415
        from bindery.store.paths import DataDir  # noqa: PLC0415

        try:
            return AccessStore(DataDir.open(self.data).access).load()
        except InvalidInput:  # there is no data directory yet
            return Access()

    def _leave_out_grants(self, objects: Sequence[SourceObject], base: Topology) -> None:
        """Permissions of users and of vhosts that neither the source nor the data directory has."""

        def named(section: str) -> set[str]:
            names = (raw.get("name") for item in objects for one, raw in item.declares if one == section)
            return {name for name in names if isinstance(name, str)}

        users = named("users") | self._present_access().users.keys()
        vhosts = named("vhosts") | base.vhosts.keys()
        for item in objects:
            for section, raw in list(item.declares):
                if section not in ("permissions", "topic_permissions"):
                    continue
                for kind, known in (("user", users), ("vhost", vhosts)):
                    name = raw.get(kind)
                    if isinstance(name, str) and name not in known:
                        item.lost(f"there is no {kind} {name!r}", kind, hint=f"declare the {kind} before")
                        break

    def _put_access(self, definitions: Definitions, settled: Settled, name: str, *, dry: bool) -> None:
        """Put users and permissions; `dry` only finds out whether they can be, before anything is changed."""
        from bindery.store.access import AccessEditor, AccessStore  # noqa: PLC0415
        from bindery.store.access_definitions import apply_access  # noqa: PLC0415
        from bindery.store.paths import DataDir  # noqa: PLC0415

        if dry:
            apply_access(definitions, AccessEditor(self._present_access()))
            for granted in (*definitions.permissions, *definitions.topic_permissions):
                if granted["vhost"] not in settled.topology.vhosts:
                    raise InvalidInput(f"there is no vhost {granted['vhost']!r} for a permission of it", where=name)
            return
        store = AccessStore(DataDir.open(self.data, create=True).access)
        store.edit(
            lambda editor: apply_access(definitions, editor),
            author="bindery import",
            action=f"imported users of {name}",
        )


def _in_words_of_the_source(error: DefinitionsRefused, settled: Settled) -> DefinitionsRefused:
    """The refusal with the places of objects in the source, not in the definitions made of them."""
    from bindery.router.documents import refusal  # noqa: PLC0415

    for problem in error.problems:
        if problem["path"] in settled.owners:
            problem["path"] = settled.owners[problem["path"]].place
    placed = refusal(**cast("dict[str, Any]", error.report))
    placed.hint = error.hint
    return placed


def mode_of(kind: str, title: str, compat: str) -> str:
    """The name of a compatibility mode, which must be one of that kind of broker. Raises InvalidInput."""
    name = mode_named(compat, where="--compat").name
    if name.rpartition("-")[0] != kind:
        own = [each for each in MODES if each.rpartition("-")[0] == kind]
        raise InvalidInput(
            f"{compat} is no mode of {title}",
            where="--compat",
            hint="one of its own: " + ", ".join(own) if own else f"there is no mode of {title}",
        )
    return name
