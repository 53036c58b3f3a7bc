"""What every resource works with: the stores of one data directory and what is counted in this process."""

from __future__ import annotations

import asyncio
import base64
import logging
import socket
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, Final, Self, TypeVar, overload

from fastapi.concurrency import run_in_threadpool

from bindery.api.auth import FailedLogins
from bindery.api.counts import Counts
from bindery.api.inbox_writer import InboxWriter
from bindery.api.lint_reports import LintReports
from bindery.api.publisher import Publisher
from bindery.api.sessions import Sessions
from bindery.api.settings import Settings
from bindery.api.statistics import Statistics
from bindery.jobs.control.desk import Desk
from bindery.jobs.control.launch import Launcher
from bindery.router.declarations import TopologyEditor
from bindery.router.errors import BinderyError, UnsupportedTable
from bindery.router.model import Topology
from bindery.router.policies import Policies
from bindery.store.access import Access, AccessEditor, AccessStore
from bindery.store.group_commit import GroupCommitter
from bindery.store.jobs import JobRegistry
from bindery.store.journal_sizes import JournalSizes
from bindery.store.kept_totals import manifest_totals
from bindery.store.maintenance import Upkeep
from bindery.store.newest import NewestBatches
from bindery.store.paths import DataDir
from bindery.store.tables import exists, open_log
from bindery.store.topology import TOPOLOGY, Edit, TopologyStore
from bindery.store.totals import ManifestTotals

T = TypeVar("T")
_LOGGER: Final = logging.getLogger("bindery.api")
#: Batches of each stream that are at hand.
NEWEST_BATCHES: Final = 60


class _part(cached_property[T]):  # noqa: N801  # reads like the decorator that it is
    """A cached property that is made once, also when two threads ask at the same time."""

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> T: ...

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Self | T:
        if instance is None:
            return self
        with instance.making:
            made: T = super().__get__(instance, owner)
            return made


class ControlPlane:
    """The parts of a running service, each made at its first use."""

    def __init__(self, settings: Settings) -> None:
        self.making = threading.RLock()
        self.settings = settings
        self.data = DataDir.open(settings.data, create=True)
        self.process = uuid.uuid4().hex
        self.node = f"bindery@{socket.gethostname()}"
        self.statistics = Statistics()
        self.journals = JournalSizes(self.data)
        self.counts = Counts(self.data, self.topology)
        self._policies: tuple[int, Policies] | None = None
        self._sizes: tuple[int, Counter[str], Counter[str]] | None = None

    @_part
    def topologies(self) -> TopologyStore:
        """The topology store; its table is created by whoever comes first."""
        return TopologyStore(self.data)

    @_part
    def cluster_id(self) -> str:
        """What tells this installation from others: the id of the topology table, as the broker words its own."""
        self.topology()  # creates the table
        table_id = open_log(self.data.topology, TOPOLOGY).state.table_id
        return f"rabbitmq-cluster-id-{base64.urlsafe_b64encode(uuid.UUID(table_id).bytes).decode().rstrip('=')}"

    @_part
    def committer(self) -> GroupCommitter:
        """Shares Delta commits among concurrent changes."""
        return GroupCommitter(self.topologies)

    @_part
    def publisher(self) -> Publisher:
        """Publishes messages under this process's own app id."""
        app_id = f"api:{self.process}"
        if self.upkeep is None:
            return Publisher(self.data, self.topology, app_id=app_id)
        return Publisher(self.data, self.topology, app_id=app_id, committed=self.upkeep.committed)

    @_part
    def inboxes(self) -> InboxWriter:
        """Appends to inboxes, sharing commits among concurrent requests."""
        return InboxWriter(self.data)

    @_part
    def upkeep(self) -> Upkeep | None:
        """The maintenance of the data directory, which runs from its first use; None where it is off."""
        wanted = self.settings.maintenance
        return Upkeep(self.data, wanted.policy, everything_each=wanted.every) if wanted.enabled else None

    @_part
    def access(self) -> AccessStore:
        """Users and permissions."""
        return AccessStore(self.data.access)

    @_part
    def jobs(self) -> JobRegistry:
        """Submitted jobs."""
        return JobRegistry(self.data)

    @_part
    def desk(self) -> Desk:
        """How this service submits, shows and stops jobs."""
        jobs = self.settings.jobs
        launcher = Launcher(self.data, jobs.roots, jobs.master, jobs.conf, jobs.secrets, self.settings.log_format)
        return Desk(self.jobs, launcher, self.topology, self.totals.totals, jobs.stop_wait)

    @_part
    def totals(self) -> ManifestTotals:
        """What all batches together did."""
        return manifest_totals(self.data)

    @_part
    def lint(self) -> LintReports:
        """What lint says of the newest topology."""
        return LintReports()

    @_part
    def newest(self) -> NewestBatches:
        """The newest batches of each stream."""
        return NewestBatches(self.data, each=NEWEST_BATCHES)

    @_part
    def failed_logins(self) -> FailedLogins:
        """Failed logins of this process."""
        return FailedLogins(limit=self.settings.failed_logins, pause=self.settings.failed_login_pause)

    @_part
    def sessions(self) -> Sessions:
        """Who is logged in at the console."""
        return Sessions(idle=self.settings.session_idle, longest=self.settings.session_longest)

    def topology(self) -> Topology:
        """The newest topology; costs a look at the log when nothing has changed."""
        return self.topologies.load()

    def check(self) -> None:
        """Raise BinderyError unless the topology can be read, and OSError for a data directory that is away."""
        self.topology()
        if not exists(self.data.topology):  # what is known of it needs no file
            raise UnsupportedTable("the topology table is gone", where=self.data.topology)

    def author(self, kind: str, vhost: str, name: str) -> str:
        """Who made the last change to an object; predeclared ones come with their vhost."""
        return self.topologies.author((kind, vhost, name)) or self.topologies.author(("vhost", vhost, "")) or ""

    def policies(self, topology: Topology) -> Policies:
        """The policies of a topology, kept for its version."""
        known = self._policies
        if known is None or known[0] != topology.version:
            known = self._policies = (topology.version, Policies(topology))
        return known[1]

    def sizes(self, topology: Topology) -> tuple[Counter[str], Counter[str]]:
        """How many exchanges and queues each vhost of a topology has, kept for its version."""
        known = self._sizes
        if known is None or known[0] != topology.version:
            exchanges, queues = (Counter(vhost for vhost, _ in keys) for keys in (topology.exchanges, topology.queues))
            known = self._sizes = (topology.version, exchanges, queues)
        return known[1:]

    async def change(self, change: Callable[[TopologyEditor], T], *, author: str, reason: str = "") -> T:
        """Apply a change to the topology; comes back when it is durable, with what the change gave."""
        return (await self.change_version(change, author=author, reason=reason)).result

    async def change_version(self, change: Callable[[TopologyEditor], T], *, author: str, reason: str = "") -> Edit[T]:
        """The same, and the version that holds the change."""
        return await asyncio.wrap_future(self.committer.submit(change, author, reason))

    async def change_access(self, change: Callable[[AccessEditor], T], *, author: str, action: str) -> T:
        """Apply a change to users and permissions; comes back when it is durable."""
        return await run_in_threadpool(lambda: self.access.edit(change, author=author, action=action))

    def revoke_absent(self, *, author: str, action: str = "revoked permissions in vhosts that do not exist") -> None:
        """Revoke what is granted in vhosts that there are not, so that nobody has it when one is created.

        A vhost is created before anything is granted in it. So whoever looks at the topology last, as here,
        never takes a new one for an absent one.
        """

        def absent(access: Access) -> Iterable[str]:
            return access.vhosts - self.topology().vhosts.keys()

        def change(editor: AccessEditor) -> None:
            for vhost in absent(editor.result()):
                editor.forget_vhost(vhost)

        if absent(self.access.load()):
            self.access.edit(change, author=author, action=action)

    def revoke_gone(self, vhosts: Iterable[str], *, author: str, action: str) -> None:
        """Forget what this process counted for vhosts that were deleted, and revoke what was granted in them.

        The vhosts are gone whether that succeeds or not: what cannot be revoked now is revoked before one
        is created again.
        """
        for vhost in vhosts:
            self.statistics.forget_vhost(vhost)
        try:
            self.revoke_absent(author=author, action=action)
        except BinderyError as error:
            _LOGGER.warning("permissions in deleted vhosts are revoked later: %s", error.message)

    def close(self) -> None:
        """Finish what was accepted and release the threads."""
        if "publisher" in self.__dict__:
            self.publisher.close()
        if "inboxes" in self.__dict__:
            self.inboxes.close()
        if "committer" in self.__dict__:
            self.committer.close()
        upkeep = self.__dict__.get("upkeep")
        if upkeep is not None:
            upkeep.close()
