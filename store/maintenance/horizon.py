"""How far back the versions of a table must stay readable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from bindery.router.errors import InvalidInput
from bindery.store import tables
from bindery.store.log import TableLog
from bindery.store.maintenance.holds import Hold
from bindery.store.maintenance.listing import LogFiles
from bindery.store.maintenance.policy import DEFAULT_RETENTION, Policy, as_interval, duration
from bindery.store.maintenance.table_places import TablePlace

_LOG_AGE = "delta.logRetentionDuration"
_FILE_AGE = "delta.deletedFileRetentionDuration"
#: Clocks of two machines that share a directory may differ by so much.
_CLOCKS_MS = 60_000


@dataclass(frozen=True, slots=True)
class Horizon:
    """The oldest version that must stay readable, and since when (ms) removed files are kept.

    `held` names the streams that read from before what the retention alone would keep.
    """

    version: int
    removed_since_ms: int
    held: tuple[str, ...] = ()


def retention(place: TablePlace, log: TableLog, policy: Policy) -> timedelta:
    """How long a table's old versions are kept: what is asked for, or else what its properties state."""
    if policy.retention is not None:
        return policy.retention
    try:
        stated = duration(log.state.configuration.get(_FILE_AGE, ""))
    except InvalidInput:
        return DEFAULT_RETENTION
    return DEFAULT_RETENTION if stated > timedelta(days=3_650) else stated


def state_properties(place: TablePlace, log: TableLog, policy: Policy) -> bool:
    """Make the properties of a table say what is kept, so that other engines keep as much; True for a commit."""
    wanted = {**place.kind.properties, **tables.retained(as_interval(retention(place, log, policy)))}
    for _ in tables.attempts(log.path):
        log.refresh()
        if place.is_forever or wanted.items() <= log.state.configuration.items():
            return False
        state = replace(log.state, configuration={**log.state.configuration, **wanted})
        if log.commit((), state=state, info={"operation": "SET TBLPROPERTIES"}) is not None:
            return True
    raise AssertionError("attempts() ends by raising")


def horizon(
    place: TablePlace, log: TableLog, files: LogFiles, policy: Policy, holds: Sequence[Hold], now_ms: int
) -> Horizon | None:
    """The horizon of a table at a time; None where everything is kept."""
    if place.is_forever or not files.entries:
        return None
    kept_ms = int(retention(place, log, policy).total_seconds() * 1000)
    moment = now_ms - kept_ms
    newest = files.entries[-1]
    crowded = files.version_at(now_ms - int(policy.shortest.total_seconds() * 1000))
    oldest = files.version_at(moment)
    if crowded is not None and kept_ms > policy.shortest.total_seconds() * 1000:
        many = min(crowded, newest - policy.versions)
        if many > (oldest if oldest is not None else -1):
            oldest = many
            moment = files.modified_ms(many + 1)
    if oldest is None:
        oldest = files.entries[0]
    held = tuple(hold.stream for hold in holds if hold.table_id == log.state.table_id and hold.version < oldest)
    for hold in holds:
        if hold.table_id == log.state.table_id and hold.version < oldest:
            oldest = max(hold.version, files.entries[0])
            moment = min(moment, files.modified_ms(oldest))
    return Horizon(oldest, moment - _CLOCKS_MS, held)
