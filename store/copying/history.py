"""What the log of a table says of each of its versions, from a retained one on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa

from bindery.router.errors import UnsupportedTable
from bindery.store.actions import Transaction, actions_of
from bindery.store.copying.point import Commit
from bindery.store.draining import AFTER
from bindery.store.log import entry_name
from bindery.store.maintenance.listing import LogFiles
from bindery.store.places import Place, at
from bindery.store.stream_names import claimed_stream

#: How identifiers begin that count something else than batches.
_OWN: Final = "bindery."
_UNDECLARED: Final = "bindery.undeclared"
#: Entries that are read together.
_AT_ONCE: Final = 16


class Moved(Exception):
    """Something that was to be read is gone: maintenance was faster. A look at what there is now helps."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A version: what it is part of, and the files that came (with their bytes) and went."""

    commit: Commit
    added: Mapping[str, int]
    removed: tuple[str, ...]


@dataclass(frozen=True)
class History:
    """The versions of a table from `base` on, that of a checkpoint, or from the first entry where that is -1.

    table_id   the id of the table, which Spark's offsets name
    oldest     the least version that must stay readable
    files      the files of the base version, with their bytes
    recorded   the transaction identifiers of the base version
    """

    path: str
    name: str
    table_id: str
    log: LogFiles
    base: int
    oldest: int
    files: Mapping[str, int] = field(repr=False)
    recorded: Mapping[str, int] = field(repr=False)
    entries: tuple[Entry, ...] = field(repr=False)

    @property
    def head(self) -> int:
        """The newest version."""
        return self.entries[-1].commit.version if self.entries else self.base

    @property
    def first(self) -> int:
        """The least version that can be read."""
        return max(self.base, 0)

    @property
    def commits(self) -> list[Commit]:
        """Its versions, ascending."""
        return [entry.commit for entry in self.entries]

    def batches(self, version: int) -> dict[str, int]:
        """The newest batch of each app id that a version has."""
        found = {batch.app_id: batch.version for batch in _batches(self.recorded)}
        for entry in self._up_to(version):
            found |= {batch.app_id: batch.version for batch in entry.commit.batches}
        return found

    def needed(self, version: int) -> dict[str, int]:
        """The files, with their bytes, of every retained version up to one."""
        oldest = min(self.oldest, version)
        live = dict(self.files)
        found = dict(live)
        for entry in self._up_to(version):
            for gone in entry.removed:
                live.pop(gone, None)
            live |= entry.added
            if entry.commit.version <= oldest:
                found = dict(live)
            else:
                found |= entry.added
        return found

    def log_files(self, version: int) -> list[str]:
        """The names of the checkpoints and entries that make the versions up to one readable, ascending."""
        names = [
            part.rpartition("/")[2]
            for number, parts in self.log.checkpoints.items()
            if self.base <= number <= version
            for part in map(str, parts)
        ]
        return names + [entry_name(number) for number in self.log.entries if self.base <= number <= version]

    def _up_to(self, version: int) -> Iterator[Entry]:
        return (entry for entry in self.entries if entry.commit.version <= version)


def read_history(path: str, name: str, table_id: str, log: LogFiles, oldest: int) -> History:
    """The history of a table from the newest checkpoint on that `oldest` can be read from.

    Raises Moved when its log is cleaned up meanwhile, UnsupportedTable for a damaged one.
    """
    base = max((version for version in log.checkpoints if version <= oldest), default=-1)
    if base < 0 and log.entries[:1] != (0,):
        base = min(log.checkpoints, default=-1)
        if base < 0:
            raise Moved(f"the first entries of {path} are gone")
    files: dict[str, int] = {}
    recorded: dict[str, int] = {}
    for part in log.checkpoints.get(base, ()):
        _read_checkpoint(at(str(part)), files, recorded)
    versions = [version for version in log.entries if version > base]
    if versions != list(range(base + 1, base + 1 + len(versions))):
        raise Moved(f"the log of {path} has a gap")
    entries: list[Entry] = []
    folder = at(path, "_delta_log")
    for start in range(0, len(versions), _AT_ONCE):
        wanted = versions[start : start + _AT_ONCE]
        contents = folder.read_on([entry_name(version) for version in wanted])
        if len(contents) < len(wanted):
            raise Moved(f"entry {wanted[len(contents)]} of {path} is gone")
        for version, content in zip(wanted, contents, strict=True):
            try:
                entries.append(_entry(version, log.modified_ms(version), content.decode(), path.removesuffix(name)))
            except (ValueError, KeyError, TypeError) as error:
                raise UnsupportedTable(f"cannot read entry {version} of {path}: {error}", where=path) from error
    return History(path, name, table_id, log, base, max(oldest, base, 0), files, recorded, tuple(entries))


def _read_checkpoint(part: Place, files: dict[str, int], recorded: dict[str, int]) -> None:
    try:
        with part.parquet() as file:
            rows = file.read(columns=["add.path", "add.size", "txn"])
    except FileNotFoundError as error:
        raise Moved(f"{part} is gone") from error
    except (OSError, pa.ArrowException) as error:
        raise UnsupportedTable(f"cannot read {part}: {error}", where=str(part)) from error
    files |= {unquote(one["path"]): int(one["size"]) for one in rows["add"].drop_null().to_pylist()}
    recorded |= {one["appId"]: int(one["version"]) for one in rows["txn"].drop_null().to_pylist()}


def _entry(version: int, at_ms: int, text: str, root: str) -> Entry:
    added: dict[str, int] = {}
    removed: list[str] = []
    recorded: dict[str, int] = {}
    info: Mapping[str, Any] = {}
    for action in actions_of(text):
        for name, content in action.items():
            if name == "add":
                added[unquote(content["path"])] = int(content["size"])
            elif name == "remove":
                removed.append(unquote(content["path"]))
            elif name == "txn":
                recorded[content["appId"]] = int(content["version"])
            elif name == "commitInfo":
                info = content
    commit = Commit(
        version,
        at_ms,
        tuple(_batches(recorded)) if "bindery.batch" in info else (),  # others, too, write to an inbox
        int(info.get("bindery.topologyVersion", -1)),
        recorded.get(_UNDECLARED),
        {f"{root}{table}": int(number) for table, number in info.get(AFTER, {}).items()},
    )
    return Entry(commit, added, tuple(removed))


def _batches(recorded: Mapping[str, int]) -> Iterator[Transaction]:
    """The batches among transaction identifiers; that a plan has claimed its rows is a part of its batch, too."""
    for app_id, number in recorded.items():
        stream = claimed_stream(app_id)
        if stream is not None:
            yield Transaction(stream, number)
        elif not app_id.startswith(_OWN):
            yield Transaction(app_id, number)
