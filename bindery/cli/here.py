"""The jobs of a data directory, started on this machine as a service on it would start them."""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from bindery.api.settings import StartSettings
from bindery.cli.serve import configured
from bindery.jobs.control.desk import Desk
from bindery.jobs.control.launch import Launcher
from bindery.router.errors import InvalidInput, NotFound
from bindery.store.jobs import JobRegistry
from bindery.store.kept_totals import manifest_totals
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore
from bindery.store.totals import Totals

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")


class LocalJobs:
    """The jobs of a data directory; raises InvalidInput for one that there is not, and for settings that are wrong."""

    def __init__(self, data: str) -> None:
        self._data = DataDir.open(data)
        self._settings = configured(StartSettings, None, {})
        self._registry = JobRegistry(self._data)
        self._topology = TopologyStore(self._data)
        self._totals = manifest_totals(self._data)

    def streams(self) -> list[str]:
        """The streams that have a job."""
        return [found.record.stream for found in self._registry.all()]

    def items(self) -> list[dict[str, Any]]:
        """Every job, by stream, as REST shows it."""
        desk, found = self._desk(), self._registry.all()
        totals = desk.totals() if found else Totals()
        return [desk.item(one, totals) for one in found]

    def item(self, stream: str) -> dict[str, Any]:
        """One job as REST shows it; raises NotFound."""
        desk, found = self._desk(), self._registry.get(stream)
        return desk.item(found, desk.totals())

    def state(self, stream: str) -> tuple[str, int | None]:
        """The state of a job and the number of its newest run; raises NotFound."""
        found = self._registry.get(stream)
        return found.state, None if found.record.run is None else found.record.run.number

    def log(self, stream: str, run: int | None, *, lines: int, after: int | None = None) -> dict[str, Any]:
        """Lines of a run's log, and where they end; raises NotFound without one."""
        part = self._desk().log(self._registry.get(stream), run, lines=lines, after=after)
        if part is None:
            raise NotFound(
                "no log of that run on this machine",
                where="job",
                hint="the newest five are kept, each on the machine that started the run",
            )
        return asdict(part)

    def errors(self, document: Mapping[str, Any]) -> list[InvalidInput]:
        """What keeps a document from running here."""
        document = _in_full(document)
        return list(self._desk(document).errors(document))

    def submit(self, document: Mapping[str, Any], *, new_epoch: bool = False) -> str:
        """Start the job of a document on this machine; gives its stream. Raises what Desk.submit does."""
        document = _in_full(document)
        return self._desk(document).submit(document, f"{_user()} (bindery jobs)", new_epoch=new_epoch)

    def restart(self, stream: str, *, new_epoch: bool = False) -> None:
        """Start a job again on this machine, after its end if it runs; raises what Desk.restart does."""
        self._desk(self._registry.get(stream).record.document).restart(stream, new_epoch=new_epoch)

    def stop(self, stream: str, *, force: bool = False) -> bool:
        """Ask a job to end after the batch that is running, or kill it; whether its process is on this machine."""
        return self._desk().stop(stream, force=force)

    def forget(self, stream: str) -> None:
        """Forget a job that does not run; raises NotFound and JobConflict."""
        self._registry.forget(stream)

    def _desk(self, document: Mapping[str, Any] | None = None) -> Desk:
        """A desk at which that document may name what it reads: who submits it may read as much by `bindery route`."""
        jobs = self._settings.jobs
        roots = (*jobs.roots, *_named_by(document or {}))
        launcher = Launcher(self._data, roots, jobs.master, jobs.conf, jobs.secrets, self._settings.log_format)
        return Desk(self._registry, launcher, self._topology.load, self._totals.totals, jobs.stop_wait)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())  # as in a container whose user has no name


def _in_full(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The document with the path of its source from the working directory, as `bindery route` reads it."""
    source = document.get("source")
    path = source.get("path") if isinstance(source, Mapping) else None
    if not isinstance(source, Mapping) or not isinstance(path, str) or not path or _SCHEME.match(path):
        return document
    return {**document, "source": {**source, "path": str(Path(path).absolute())}}


def _named_by(document: Mapping[str, Any]) -> tuple[str, ...]:
    """The folder or address, and the brokers, that a document names."""
    found: list[str] = []
    for part in (document.get("source"), document.get("forward")):
        if not isinstance(part, Mapping):
            continue
        path, servers = part.get("path"), part.get("bootstrap_servers")
        if isinstance(path, str) and path:
            found.append("/" + path[5:].lstrip("/") if path.lower().startswith("file:") else path)
        listed = servers.split(",") if isinstance(servers, str) else servers if isinstance(servers, list) else []
        found += [f"kafka://{server.strip()}" for server in listed if isinstance(server, str)]
    return tuple(found)
