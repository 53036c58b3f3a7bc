"""The log of a Delta table as a committer needs it: what was committed, and the next entry.

A `TableLog` holds the version, protocol, metadata and transaction identifiers of a table, and on request
its files. It reads the newest checkpoint once and follows the entries after it; so neither looking for
news nor committing reads or writes anything that grows with the table (Delta transaction protocol,
"Delta Log Entries": an entry is made by put-if-absent and never changes).

Every commit carries a token of its own. After an error the entry is read and the tokens are compared
before anything is judged: the entry may be there although its writer was told otherwise.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
from deltalake import Schema

from bindery.router.errors import CommitUnknown, StorageFailed, UnsupportedTable
from bindery.store import checkpoints, effects
from bindery.store.actions import TOKEN, Action, AddFile, TableState, Transaction, actions_of, added_file, entry_text
from bindery.store.places import Place, at

_LOG: Final = "_delta_log"
_CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet")
#: Age (ms) of a file from which on a commit looks whether it is still there.
CHECKED_AFTER_MS: Final = 600_000
#: Seconds for which a log on an object store is trusted not to have been cleaned up beyond what was seen.
TRUSTED_SECONDS: Final = 10.0
#: Entries that are read together at most, where reading one means waiting for a store.
_AT_ONCE: Final = 16
#: How lines of an entry begin that tell a committer nothing.
_OF_FILES: Final = ('{"add"', '{"remove"')


def entry_name(version: int) -> str:
    """The name of an entry in the folder of its log."""
    return f"{version:020}.json"


def entry_of(table: str, version: int) -> Place:
    """An entry of the log of a table."""
    return at(table, _LOG, entry_name(version))


class TableLog:
    """The log of one table, followed; not safe between threads.

    `files` maps each file's path to what the log says of it, None unless they are asked for: a
    committer that only appends has no use for them, and they grow with the table.
    """

    def __init__(self, path: str, *, files: bool = False) -> None:
        """Read the table's newest state. Raises UnsupportedTable for a missing or damaged log."""
        self.path = path
        self.files: dict[str, AddFile] | None = {} if files else None
        self._folder = at(path, _LOG)
        self._version = self._checkpoint = -1
        self._anchor: tuple[object, ...] | None = None
        self._load()

    # -- what is known ------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """The newest version that has been seen."""
        return self._version

    @property
    def state(self) -> TableState:
        """What the table says about itself; another object when that has changed."""
        return self._state

    @property
    def checkpoint_version(self) -> int:
        """The version of the checkpoint from which this log was read; -1 for none."""
        return self._checkpoint

    @property
    def transactions(self) -> Mapping[str, int]:
        """The newest number of every transaction identifier."""
        return self._transactions

    def transaction_version(self, app_id: str) -> int | None:
        """How far an application has come in this table; None when it never committed."""
        return self._transactions.get(app_id)

    # -- following ----------------------------------------------------------------------------------

    def refresh(self) -> bool:
        """Follow the log to its newest entry; True when there was one. Raises UnsupportedTable.

        A log that was replaced below us (the table was removed and made again, its old entries were cleaned
        up while this process was stopped) is read anew; one that has lost entries is refused.
        """
        if self._anchor != self._stamp(self._version):
            return self._reload()
        moved = self._follow()
        if moved:
            self._anchor = self._stamp(self._version)
        return moved

    def _follow(self) -> bool:
        """Take over the entries that there are beyond the version; True when there was one."""
        before, at_once = self._version, 1
        while True:
            found = self._entries(self._version + 1, at_once)
            for entry in found:
                self._apply(entry)
                self._version += 1
            if len(found) < at_once:
                self._seen = time.time()
                return self._version > before
            at_once = min(2 * at_once, _AT_ONCE)

    def _reload(self) -> bool:
        known = dict(vars(self))
        before = (self._state.table_id, self._version)
        try:
            self._load()
            if self._state.table_id == before[0] and self._version < before[1]:
                raise UnsupportedTable(
                    f"the log of {self.path} has lost entries: it was at version {before[1]} and is at {self._version}",
                    where=self.path,
                    hint="restore the newest files of its _delta_log; what they held would be lost without a word",
                )
        except BaseException:
            # what could not be read whole is no base for a commit: the next look comes here again
            vars(self).clear()
            vars(self).update(known)
            raise
        return True

    # -- committing ---------------------------------------------------------------------------------

    def commit(
        self,
        actions: Sequence[Action],
        *,
        transactions: Iterable[Transaction] = (),
        info: Mapping[str, Any] | None = None,
        state: TableState | None = None,
    ) -> int | None:
        """Make the entry after the newest one that was seen; its version, None for a lost race.

        What was checked against the seen version holds for the commit. On success this log is at the new
        version. `state` replaces what the table says about itself. Raises StorageFailed when the commit
        certainly did not take place, CommitUnknown when that cannot be told: then nothing that the
        actions name may be deleted.
        """
        self._check_present(actions)
        version = self._version + 1
        token = uuid.uuid4().hex
        entry = entry_text(actions, transactions, info, token, state)
        path = self._path(version)
        try:
            anchor = effects.put_new(path, entry.encode())
        except StorageFailed as error:
            anchor, found = None, self._token_at(version, error)
            if found is None:
                raise
            made = found == token
        else:
            made = anchor is not None or self._token_at(version, None) == token
        if not made:
            return None
        if self._anchor is not None and self.may_be_below() and self._is_gone(version - 1):
            self._withdraw(path)
        self._seen = time.time()
        self._apply(entry)
        self._version = version
        self._anchor = anchor  # None where it is not known: the next look reads the log anew
        checkpoints.consider(self.path, version)
        return version

    def _check_present(self, actions: Sequence[Action]) -> None:
        """Raise StorageFailed when a file that was written long ago is gone: maintenance took it for left behind.

        That this holds for the commit is maintenance's care: it commits before it deletes such a file for good.
        """
        oldest = time.time_ns() // 1_000_000 - CHECKED_AFTER_MS
        for action in actions:
            if not isinstance(action, AddFile) or action.modified_ms >= oldest:
                continue
            if at(self.path, action.path).stat() is None:
                raise StorageFailed(
                    f"{action.path} is no longer in {self.path}",
                    where=self.path,
                    hint="this process was stopped for so long that it was cleaned up; the same can be tried again",
                )

    def _token_at(self, version: int, cause: Exception | None) -> str | None:
        """The token of an entry ("" for one of another engine); None when there is no such entry."""
        try:
            entry = self._entry(version)
            if entry is None:
                return None
            found: dict[str, Any] = next(
                (action["commitInfo"] for action in actions_of(entry) if "commitInfo" in action), {}
            )
            return str(found.get(TOKEN, ""))
        except (UnsupportedTable, ValueError) as error:
            raise CommitUnknown(
                f"whether a commit to {self.path} took place cannot be read: {error}",
                where=self.path,
                hint="nothing was deleted; once the disk answers, the same can be tried again",
            ) from (cause or error)

    def _withdraw(self, path: Place) -> None:
        """Take back an entry made below the newest checkpoint, where nobody reads it.

        This process was stopped between its look at the log and its commit for so long that the entries it
        had seen were cleaned up.
        """
        effects.remove(path)
        raise StorageFailed(
            f"the log of {self.path} was cleaned up while a commit was under way",
            where=self.path,
            hint="this process was stopped for longer than the log is kept; start it again",
        )

    # -- reading ------------------------------------------------------------------------------------

    def _path(self, version: int) -> Place:
        return self._folder / entry_name(version)

    def _stamp(self, version: int) -> tuple[object, ...] | None:
        """What tells an entry from another one of the same number; None when it is not there."""
        try:
            found = self._path(version).stat()
        except OSError as error:
            raise self._unreadable(error) from error
        return None if found is None else found.identity

    def may_be_below(self) -> bool:
        """Whether the log may have been cleaned up since it was looked at; a look at a store costs a request."""
        return not self._folder.is_remote or abs(time.time() - self._seen) > TRUSTED_SECONDS

    def _is_gone(self, version: int) -> bool:
        """Whether an entry is certainly not there any more; a disk that does not answer says nothing."""
        try:
            return self._stamp(version) is None
        except UnsupportedTable:
            return False

    def _entry(self, version: int) -> str | None:
        found = self._entries(version, 1)
        return found[0] if found else None

    def _entries(self, first: int, number: int) -> list[str]:
        """Consecutive entries, up to the first one that is not there."""
        try:
            names = [entry_name(version) for version in range(first, first + number)]
            return [content.decode() for content in self._folder.read_on(names)]
        except (OSError, UnicodeDecodeError) as error:
            raise self._unreadable(error) from error

    def _load(self) -> None:
        self._transactions: dict[str, int] = {}
        if self.files is not None:
            self.files = {}
        self._metadata: Mapping[str, Any] | None = None
        self._protocol: Mapping[str, Any] | None = None
        self._checkpoint = self._version = -1
        try:
            self._read_checkpoint()
        except (OSError, pa.ArrowException, ValueError) as error:
            raise self._unreadable(error) from error
        self._follow()
        if self._metadata is None or self._protocol is None:
            if not self._is_there():
                raise UnsupportedTable(
                    f"no table at {self.path}",
                    where=self.path,
                    hint="it was removed, or this is another data directory",
                )
            raise self._unreadable("its first entries are missing")
        self._anchor = self._stamp(self._version)

    def _is_there(self) -> bool:
        try:
            return self._folder.is_folder()
        except OSError as error:
            raise self._unreadable(error) from error

    def _read_checkpoint(self) -> None:
        version = self._newest_checkpoint()
        if version is None:
            return
        name, begin = f"{version:020}.checkpoint.parquet", f"{version:020}.checkpoint."
        try:
            self._read_part(self._folder / name)
        except FileNotFoundError:
            for part in self._folder.files():
                if part.startswith(begin) and _CHECKPOINT.fullmatch(part):
                    self._read_part(self._folder / part)
        self._version = self._checkpoint = version

    def _newest_checkpoint(self) -> int | None:
        """The checkpoint to begin with: the one on record if the log goes on from it, else the newest whole one."""
        recorded = (self._folder / "_last_checkpoint").read()
        try:
            version = -1 if recorded is None else int(json.loads(recorded)["version"])
        except (ValueError, KeyError, TypeError):
            version = -1
        name = f"{version:020}.checkpoint.parquet"
        if version >= 0 and (self._folder / name).stat() is not None and self._path(version).stat() is not None:
            return version
        if recorded is None and self._folder.is_remote and self._path(0).stat() is not None:
            return None  # a young table: its entries say all, and a list costs more than they do
        parts: dict[int, int] = {}
        whole: list[int] = []
        for found in filter(None, map(_CHECKPOINT.fullmatch, self._folder.files())):
            version = int(found[1])
            parts[version] = parts.get(version, 0) + 1
            if found[3] is None or parts[version] == int(found[3]):
                whole.append(version)
        return max(whole, default=None)

    def _read_part(self, place: Place) -> None:
        with place.parquet() as file:
            present = set(file.schema_arrow.names)
            columns = [name for name in ("txn", "protocol", "metaData") if name in present]
            if self.files is not None:
                columns += ["add.path", "add.size", "add.modificationTime", "add.stats"]
            rows = file.read(columns=columns)
        for name in columns[:3]:
            for action in rows[name].drop_null().to_pylist():
                self._take(name, action)
        if self.files is not None:
            for action in rows["add"].drop_null().to_pylist():
                self._take("add", action)

    def _apply(self, entry: str) -> None:
        try:
            for action in actions_of(entry, without=() if self.files is not None else _OF_FILES):
                for name, content in action.items():
                    self._take(name, content)
        except (ValueError, KeyError, TypeError) as error:
            raise self._unreadable(f"entry {self._version + 1}: {error}") from error

    def _take(self, name: str, content: Mapping[str, Any]) -> None:
        """Take over one action of the log; maps of a checkpoint come as lists of pairs."""
        if name == "txn":
            self._transactions[content["appId"]] = int(content["version"])
        elif name == "metaData":
            self._metadata = content
            self.__dict__.pop("_state", None)
        elif name == "protocol":
            self._protocol = content
            self.__dict__.pop("_state", None)
        elif self.files is not None and name == "add":
            added = added_file(content)
            self.files[added.path] = added
        elif self.files is not None and name == "remove":
            self.files.pop(unquote(content["path"]), None)

    @cached_property
    def _state(self) -> TableState:
        metadata, protocol = self._metadata, self._protocol
        assert metadata is not None  # noqa: S101  # _load has refused a log without
        assert protocol is not None  # noqa: S101
        features = {*(protocol.get("readerFeatures") or ()), *(protocol.get("writerFeatures") or ())}
        return TableState(
            metadata["id"],
            dict(metadata.get("configuration") or {}),
            int(protocol["minReaderVersion"]),
            int(protocol["minWriterVersion"]),
            tuple(sorted(features)),
            metadata["schemaString"],
            metadata.get("name"),
            metadata.get("description"),
        )

    def _unreadable(self, reason: object) -> UnsupportedTable:
        return UnsupportedTable(
            f"cannot read the log of {self.path}: {str(reason).partition(chr(10))[0]}",
            where=self.path,
            hint="whoever runs this may not read it"
            if isinstance(reason, PermissionError)
            else "its log is damaged or incomplete; restore _delta_log",
        )


def create_log(
    path: str,
    schema: Schema,
    configuration: Mapping[str, str],
    *,
    name: str | None = None,
    description: str | None = None,
    transactions: Iterable[Transaction] = (),
) -> bool:
    """Make an empty table of protocol 1/2 without table features; False when there is one already.

    `name` and `description` are for people.

    Raises StorageFailed and CommitUnknown as a commit does.
    """
    folder = at(path, _LOG)
    effects.make_folder(folder)
    token = uuid.uuid4().hex
    state = TableState(str(uuid.uuid4()), configuration, 1, 2, (), schema.to_json(), name, description)
    first = folder / entry_name(0)
    content = entry_text((), transactions, {"operation": "CREATE TABLE"}, token, state, create=True)
    try:
        return effects.put_new(first, content.encode()) is not None
    except StorageFailed:
        try:
            if token.encode() in (first.read() or b""):
                return True
        except OSError as error:
            raise CommitUnknown(f"whether {path} was created cannot be read: {error}", where=path) from error
        raise


def is_table(path: str) -> bool:
    """Whether a Delta table stands at that path: its log has a first entry or a checkpoint."""
    folder = at(path, _LOG)
    with effects.looking(folder):
        if (folder / entry_name(0)).stat() is not None:
            return True
        return any(name == "_last_checkpoint" or _CHECKPOINT.fullmatch(name) for name in folder.files())
