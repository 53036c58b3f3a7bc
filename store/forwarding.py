"""Forwarders: how far each has come in a queue's table, and what was appended to it since.

`DIR/forwards/<name>/<number>.json`: a forwarder that starts makes the next number, with the position that it
finds, and by that ends the right of the one before. Only the highest number counts, so whatever a forwarder
writes that was overtaken counts no more.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import pyarrow as pa

from bindery.router.errors import Fenced, Refused, UnsupportedTable
from bindery.store import effects, file_rows, tables
from bindery.store.actions import AddFile, actions_of, added_file
from bindery.store.log import entry_of
from bindery.store.paths import DataDir, encode_name
from bindery.store.places import Place, at
from bindery.store.statistics import stated_span

_AGAIN: Final = (
    "start over with --start-over: from earliest, what the queue holds is sent again; from latest, nothing is"
)


@dataclass(frozen=True, slots=True)
class Position:
    """What comes next: file `file`, in order, of those that a version of a table appended.

    With `snapshot` it is of those that the version has, appended by whichever one.
    """

    table_id: str
    version: int
    file: int = 0
    snapshot: bool = False


@dataclass(frozen=True, slots=True)
class Recorded:
    """The position of a forwarder, when it came there, in milliseconds since 1970, and rows before it.

    Rows count from where it began; each of them was acknowledged, or refused and left out.
    """

    name: str
    position: Position
    moved_ms: int
    rows: int


class Forwarding:
    """The right of one forwarder to move the position of its name; a later one of that name ends it.

    `position` is the one on record, None where there is none. Raises StorageFailed, and UnsupportedTable for a
    record that is damaged, unless it is not wanted (`start_over`).
    """

    def __init__(self, data: DataDir, name: str, *, start_over: bool = False) -> None:
        self._name = name
        self._folder = _folder(data) / encode_name(name)
        effects.make_folder(self._folder)
        while True:
            newest = _newest(self._folder)
            found = None if start_over else _read(self._folder, newest)
            self.position = None if found is None else found.position
            self._rows = 0 if found is None else found.rows
            self._number = newest + 1
            if not effects.put_new(self._record(self._number), self._content()):
                continue
            if _newest(self._folder) == self._number:
                break
            # a listing may show neither a record that is removed meanwhile nor the one that replaces it
            effects.remove(self._record(self._number))
        for number in _numbers(self._folder):
            if number < self._number:
                effects.remove(self._record(number))

    def check(self) -> None:
        """Raise Fenced when another forwarder of the name has started since."""
        if _newest(self._folder) > self._number:
            raise Fenced(
                f"another forwarder {self._name!r} has started",
                where=str(self._folder),
                hint="one at a time moves a position; this one stops. Give it a name of its own, if both are wanted",
            )

    def move(self, position: Position, *, rows: int = 0) -> None:
        """Record that everything before the position was forwarded, so many rows since the last one.

        Raises Fenced and StorageFailed.
        """
        self.check()
        self.position = position
        self._rows += rows
        effects.replace(self._record(self._number), self._content())

    def _record(self, number: int) -> Place:
        return self._folder / f"{number}.json"

    def _content(self) -> bytes:
        return _Found(self._name, time.time_ns() // 1_000_000, self._rows, self.position).content()


def recorded(data: DataDir) -> Iterator[Recorded]:
    """The positions of every forwarder; a record that is damaged is passed over."""
    yield from filter(None, map(_recorded, _folders(data)))


def recorded_of(data: DataDir, name: str) -> Recorded | None:
    """The position of one forwarder; None where there is none, or a record that is damaged."""
    return _recorded(_folder(data) / encode_name(name))


def copied_records(data: DataDir, versions: Mapping[str, int]) -> dict[str, bytes]:
    """The records of forwarders for a copy, by their address relative to the data directory.

    `versions` has what the copy has of tables, by table id: up to which version, -1 for nothing. No position is beyond
    that. Each record has the number after the newest one, by which a forwarder of the source has no right to the copy,
    should that come to lie in the place of the source. A damaged record stays as it is, and so does a position in a
    table that is not there any more: both are refused in the copy, too.
    """
    root = at(data.root)
    found: dict[str, bytes] = {}
    for folder in _folders(data):
        try:
            record = _read(folder, _newest(folder))
        except UnsupportedTable:
            newest = folder / f"{_newest(folder)}.json"
            found[newest.below(root)] = effects.read(newest) or b""
            continue
        position = None if record is None else _up_to(record.position, versions)
        if record is not None and position is not None:
            found[(folder / f"{_newest(folder) + 1}.json").below(root)] = replace(record, position=position).content()
    return found


def _up_to(position: Position | None, versions: Mapping[str, int]) -> Position | None:
    """The position in a copy: of a table that has come less far what comes after its last version."""
    last = None if position is None else versions.get(position.table_id)
    if position is None or last is None or position.version <= last:
        return position
    if last < 0:
        return None
    # of a snapshot that the copy lacks not everything was sent: what the queue held at the point is
    return Position(position.table_id, last if position.snapshot else last + 1, snapshot=position.snapshot)


def has_position(data: DataDir, name: str) -> bool:
    """Whether a forwarder of that name has ever started."""
    return bool(_newest(_folder(data) / encode_name(name)))


@dataclass(frozen=True, slots=True)
class _Found:
    name: str
    moved_ms: int
    rows: int
    position: Position | None

    def content(self) -> bytes:
        position = {} if self.position is None else asdict(self.position)
        return json.dumps({"name": self.name, "moved_ms": self.moved_ms, "rows": self.rows, **position}).encode()


def _recorded(folder: Place) -> Recorded | None:
    try:
        found = _read(folder, _newest(folder))
    except UnsupportedTable:
        return None
    if found is None or found.position is None:
        return None
    return Recorded(found.name, found.position, found.moved_ms, found.rows)


def _folder(data: DataDir) -> Place:
    return at(data.root, "forwards")


def _folders(data: DataDir) -> list[Place]:
    forwards = _folder(data)
    with effects.looking(forwards):
        return [forwards / name for name in forwards.folders()]


def _numbers(folder: Place) -> list[int]:
    with effects.looking(folder):
        return folder.numbers(".json")


def _newest(folder: Place) -> int:
    """The number that counts, 0 where there is none."""
    return max(_numbers(folder), default=0)


def _read(folder: Place, number: int) -> _Found | None:
    """The record of a number, or of the newer one that has replaced it; None for 0."""
    if not number:
        return None
    path = folder / f"{number}.json"
    content = effects.read(path)
    if content is None:
        return _read(folder, _newest(folder))
    try:
        stated: dict[str, Any] = json.loads(content)
        position = None
        if "table_id" in stated:
            numbers = int(stated["version"]), int(stated["file"])
            position = Position(str(stated["table_id"]), *numbers, bool(stated["snapshot"]))
        # a record of an older Bindery counts no rows
        return _Found(str(stated["name"]), int(stated["moved_ms"]), int(stated.get("rows", 0)), position)
    except (ValueError, KeyError, TypeError) as error:
        raise UnsupportedTable(f"the position in {path} is damaged: {error}", where=str(path), hint=_AGAIN) from error


# -- what a table was given -----------------------------------------------------------------------------


class QueueLog:
    """What was appended to a queue's table, version by version.

    Rows that were taken, purged or merged since were appended all the same: their files stay as long as the
    table's versions do. A version that removes rows appends none (Spark's `skipChangeCommits`).
    """

    def __init__(self, data: DataDir, vhost: str, queue: str) -> None:
        """Raises UnsupportedTable for a table that is missing or damaged."""
        self._vhost, self._queue = vhost, queue
        self._log = tables.open_log(data.queue(vhost, queue), tables.QUEUE, vhost=vhost, name=queue)
        self.path = self._log.path

    @property
    def version(self) -> int:
        """The newest version that has been seen."""
        return self._log.version

    def refresh(self) -> None:
        """Look for newer versions. Raises UnsupportedTable."""
        self._log.refresh()

    def earliest(self) -> Position:
        """Before the rows that the queue holds now."""
        return Position(self._log.state.table_id, self._log.version, snapshot=True)

    def latest(self) -> Position:
        """After them."""
        return Position(self._log.state.table_id, self._log.version + 1)

    def check(self, position: Position) -> None:
        """Raise Refused for a position of another table, or beyond the end of this one."""
        if position.table_id != self._log.state.table_id:
            raise Refused("the position on record is one of another table", where=self.path, hint=_AGAIN)
        if position.version > self._log.version + 1:
            raise Refused(
                f"the position on record is version {position.version}, and the newest one of the table is "
                f"{self._log.version}: it was restored from an older state",
                where=self.path,
                hint=_AGAIN,
            )

    def files(self, position: Position) -> list[str]:
        """The files of the position's version in order, for `store.file_rows`; those before its own too.

        Raises Refused for a version that is no longer kept.
        """
        try:
            found = self._snapshot(position.version) if position.snapshot else self._appended(position.version)
            return [file.path for file in sorted(found, key=self._order)]
        except UnsupportedTable as error:
            raise self.behind(position, error.message) from error

    def behind(self, position: Position, reason: str) -> Refused:
        """The error of a version that cannot be read."""
        return Refused(
            f"version {position.version} of queue {self._queue!r} can no longer be forwarded: {reason}",
            where=self.path,
            hint="restore what is missing; if the table's retention has passed, " + _AGAIN,
        )

    def _appended(self, version: int) -> list[AddFile]:
        content = effects.read(entry_of(self.path, version))
        if content is None:
            raise UnsupportedTable("its entry in the log is gone", where=self.path)
        added: list[AddFile] = []
        try:
            for action in actions_of(content.decode()):
                if action.get("remove", {}).get("dataChange"):
                    return []
                if action.get("add", {}).get("dataChange"):
                    added.append(added_file(action["add"]))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UnsupportedTable(f"its entry in the log is damaged: {error}", where=self.path) from error
        return added

    def _snapshot(self, version: int) -> list[AddFile]:
        table = tables.open_table(self.path, tables.QUEUE, vhost=self._vhost, name=self._queue, version=version)
        paths: list[str] = pa.table(table.get_add_actions())["path"].to_pylist()
        return [AddFile(path, 0, None, "", 0) for path in paths]

    def _order(self, file: AddFile) -> tuple[int, int, int, str]:
        """By clock, batch and number of the first row, as far as the log or else the file itself states them."""
        try:
            routing = json.loads(file.stats or "{}")["minValues"]["routing"]
            first = int(routing["batch_id"]), int(routing["seq"])
        except (ValueError, KeyError, TypeError):
            first = self._least(file.path, "routing.batch_id"), self._least(file.path, "routing.seq")
        return stated_span(self.path, file).first, *first, file.path

    def _least(self, name: str, column: str) -> int:
        footer = file_rows.footer(self.path, name)
        groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
        chunks = [group.column(place) for group in groups for place in range(group.num_columns)]
        stated = [chunk.statistics for chunk in chunks if chunk.path_in_schema == column]
        return min((stats.min for stats in stated if stats is not None and stats.has_min_max), default=0)
