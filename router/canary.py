"""Canaries: a changed topology of a vhost that a share or a filter of its messages is tried on.

The canary of a vhost is a setting of the topology (kind `canary`), so that each version of the topology says by itself
which messages another version, the candidate, routes. Both are versions of the topology table: rows name the one that
routed them.

Of a message it is its identity that decides: its message id, else where in the source it was read, else exchange,
routing key and body. Each identity has a fixed place between 0 and 1, and is in the canary when that is below the
share: the same wherever and whenever it is asked, and a message that is in at 5 % is in at 10 %.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bindery.router.columns import ABSENT, NULL, BatchView, Ref
from bindery.router.errors import InvalidInput
from bindery.router.filters import Filter, FilterGroups, parse
from bindery.router.filters.sets import parse_filter_set
from bindery.router.message import MESSAGE_SCHEMA, SOURCE
from bindery.router.model import ObjectKey, Setting, Topology
from bindery.router.model.objects import CANARY_KIND
from bindery.router.values import Table, identity

RUNNING: Final = "running"
PROMOTED: Final = "promoted"
ROLLED_BACK: Final = "rolled back"
#: The language of a filter that is a filter set.
FILTER_SET: Final = "filter-set"
_MESSAGE_ID: Final = Ref("properties", "message_id")
_UNIT: Final = 2.0**-53

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Canary:
    """What is tried in a vhost, and on which messages.

    version     the version of the topology that is the candidate
    started     the version that was the candidate first: what tells one canary of a vhost from the next
    share       of the messages that the filter accepts, above 0 and up to 1
    filter      text in `dialect`, or the JSON of a filter set under the dialect `filter-set`; None: every message
    deliver     whether messages of the canary go where the candidate says; otherwise it is only compared
    state       running, promoted or rolled back
    by, since   who began it, and when (ISO 8601); `ended` likewise when it has ended
    conflicts   objects that the candidate and the present have both changed since it began
    queues      queues that were declared for it
    """

    vhost: str
    version: int
    started: int
    share: float = 1.0
    filter: str | None = None
    dialect: str = "jms"
    deliver: bool = True
    state: str = RUNNING
    by: str = ""
    since: str = ""
    ended: str = ""
    conflicts: tuple[ObjectKey, ...] = ()
    queues: tuple[str, ...] = ()

    @property
    def key(self) -> ObjectKey:
        """The key of the setting."""
        return canary_key(self.vhost)

    @property
    def is_running(self) -> bool:
        """Whether messages are compared, and delivered unless it is dry."""
        return self.state == RUNNING

    def as_setting(self) -> Setting:
        """The canary as an object of the topology."""
        stated = {name: getattr(self, name) for name in _PLAIN}
        listed = {"conflicts": tuple(self.conflicts), "queues": tuple(self.queues)}
        return Setting(CANARY_KIND, self.vhost, CANARY_KIND, Table(stated | listed))

    def as_data(self) -> dict[str, Any]:
        """JSON-ready data."""
        conflicts = [{"kind": kind, "vhost": vhost, "name": name} for kind, vhost, name in self.conflicts]
        stated = {name: getattr(self, name) for name in _PLAIN} | {"filter": self.shown_filter}
        return {"vhost": self.vhost} | stated | {"conflicts": conflicts, "queues": list(self.queues)}

    @property
    def shown_filter(self) -> Any:
        """The filter as it was stated: a text, or a filter set."""
        if self.filter is not None and self.dialect == FILTER_SET:
            return json.loads(self.filter)
        return self.filter

    def condition(self) -> Filter | None:
        """The filter, parsed; None when every message is meant. Raises FilterError."""
        if self.filter is None:
            return None
        if self.dialect == FILTER_SET:
            return parse_filter_set(json.loads(self.filter))
        return parse(self.filter, self.dialect)


#: Members that are stored, and shown, as they are.
_PLAIN: Final = ("version", "started", "share", "filter", "dialect", "deliver", "state", "by", "since", "ended")


def canary_key(vhost: str) -> ObjectKey:
    """The key of the setting that is the canary of a vhost."""
    return (CANARY_KIND, vhost, CANARY_KIND)


def canary_of(topology: Topology, vhost: str) -> Canary | None:
    """The canary of a vhost, which may have ended; None where none was ever begun."""
    setting = topology.settings.get(canary_key(vhost))
    return None if setting is None else _read(setting)


def running_canary(topology: Topology, vhost: str) -> Canary | None:
    """The canary of a vhost that has not ended; None where there is none."""
    found = canary_of(topology, vhost)
    return found if found is not None and found.is_running else None


def running_canaries(topology: Topology) -> Iterator[Canary]:
    """The canaries of a topology that have not ended."""
    for kind, vhost, _ in list(topology.settings):
        found = running_canary(topology, vhost) if kind == CANARY_KIND else None
        if found is not None:
            yield found


def _read(setting: Setting) -> Canary:
    value = setting.value if isinstance(setting.value, Table) else Table()
    stated: dict[str, Any] = {name: value[name] for name in _PLAIN if name in value}
    conflicts = tuple((str(kind), str(vhost), str(name)) for kind, vhost, name in _listed(value.get("conflicts")))
    queues = tuple(map(str, _listed(value.get("queues"))))
    return replace(Canary(setting.vhost, -1, -1), **stated | {"conflicts": conflicts, "queues": queues})


def _listed(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else ()


def checked_share(share: object) -> float:
    """A share as it was stated; raises InvalidInput unless it is a number above 0 and up to 1."""
    if isinstance(share, bool) or not isinstance(share, int | float) or not math.isfinite(share):
        raise InvalidInput(f"share is {share!r}", where="share", hint="a number above 0 and up to 1: 0.05 is 5 %")
    if not 0 < share <= 1:
        hint = "0.05 is 5 %" if share > 1 else "roll the canary back to end it"
        raise InvalidInput(f"share is {share!r}: it is above 0 and up to 1", where="share", hint=hint)
    return float(share)


def checked_filter(filter: object, dialect: str | None) -> tuple[str | None, str]:
    """A filter as it was stated, text in a dialect (jms if none is named) or a filter set, as a canary keeps it.

    Raises InvalidInput, and FilterError with the place.
    """
    if filter is None:
        if dialect is not None:
            raise InvalidInput("a dialect, and no filter in it", where="dialect", hint="state the filter, too")
        return None, "jms"
    if isinstance(filter, str):
        parse(filter, dialect or "jms")
        return filter, dialect or "jms"
    if not isinstance(filter, Mapping):
        raise InvalidInput("a filter is a text or a filter set", where="filter")
    if dialect is not None:
        raise InvalidInput("a filter set has no dialect", where="dialect", hint="leave it out")
    parse_filter_set(filter)
    return json.dumps(filter, ensure_ascii=False), FILTER_SET


class Choice:
    """Chooses the messages of a canary. Raises FilterError for a filter that cannot be read any more."""

    def __init__(self, canary: Canary) -> None:
        self._share = canary.share
        condition = canary.condition()
        self._filter = None if condition is None else FilterGroups([[condition]])

    def __call__(self, batch: pa.RecordBatch, *, clock_ms: int) -> Mask:
        """Which messages (columns of SENT_SCHEMA, `source` perhaps) are in the canary; bool[n]."""
        if self._filter is None:
            chosen = np.ones(batch.num_rows, np.bool_)
        else:
            chosen = np.zeros(batch.num_rows, np.bool_)
            view = BatchView(batch.select(MESSAGE_SCHEMA.names), clock_ms=clock_ms)
            rows = np.arange(batch.num_rows, dtype=np.int64)
            chosen[self._filter.select(view, rows, np.zeros(batch.num_rows, np.int32)).pair] = True
        if self._share < 1 and chosen.any():
            rows = np.flatnonzero(chosen)
            part = batch if len(rows) == batch.num_rows else batch.take(pa.array(rows))
            chosen[rows] = places(part) < self._share
        return chosen


def places(batch: pa.RecordBatch) -> npt.NDArray[np.float64]:
    """The place of each message between 0 and 1, which its identity decides; float64[n].

    Takes some microseconds a message.
    """
    found = np.empty(batch.num_rows, np.float64)
    column = BatchView(batch.select(MESSAGE_SCHEMA.names), clock_ms=0).column(_MESSAGE_ID)
    named = (column.tag != ABSENT) & (column.tag != NULL)
    for row in np.flatnonzero(named).tolist():
        found[row] = _place(b"m" + identity(column.value(row)).encode())
    for mark, rows, members in _told_otherwise(batch, np.flatnonzero(~named)):
        columns = [pc.fill_null(member.cast(pa.binary()), b"").to_pylist() for member in members]
        for row, parts in zip(rows.tolist(), zip(*columns, strict=True), strict=True):
            found[row] = _place(mark + b"\0".join(parts))
    return found


def _told_otherwise(
    batch: pa.RecordBatch, rows: npt.NDArray[np.int64]
) -> Iterator[tuple[bytes, npt.NDArray[np.int64], list[pa.Array]]]:
    """By what messages without an id are told from each other: where they were read, or else what they are."""
    if len(rows) and "source" in batch.schema.names:
        source = batch.column("source").take(pa.array(rows))
        members = {member.name: pc.struct_field(source, member.name) for member in SOURCE}
        is_row = pc.and_(members["file"].is_valid(), members["row_index"].is_valid())
        is_place = pc.or_(members["offset"].is_valid(), is_row).to_numpy(zero_copy_only=False)
        read = [member.cast(pa.string()).filter(pa.array(is_place)) for member in members.values()]
        yield b"s", rows[is_place], read
        rows = rows[~is_place]
    if len(rows):
        yield b"c", rows, [batch.column(name).take(pa.array(rows)) for name in ("exchange", "routing_key", "body")]


def _place(told: bytes) -> float:
    digest = hashlib.blake2b(told, digest_size=8, person=b"canary").digest()
    # 53 bits, which a double holds: the highest place is below 1
    return (int.from_bytes(digest, "little") >> 11) * _UNIT
