"""Bindery inside a program of Spark's: `bindery.spark`, which gives a session, and what it offers to any DataFrame."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bindery.analytics.directory import Directory, Snapshot
from bindery.router.documents import MAX_BYTES, read_source
from bindery.router.errors import InvalidInput
from bindery.router.model import DEFAULT_VHOST, Topology
from bindery.router.proposal import read_change
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

#: What a topology may be given as: itself, what has one, a data directory's path or URL, or definitions: the path of
#: their file, or their data.
Routes = Topology | Directory | Snapshot | str | Path | Mapping[str, Any]


class Spark:
    """Bindery in programs of Spark's: call it for a session, or use what it has on DataFrames of any session.

    What runs in executors needs the same Bindery there.
    """

    def __call__(self) -> SparkSession:
        """The session of Spark that is there, or a new local one, set up as jobs are: Delta, UTC, loopback.

        Raises InvalidInput without a Java.
        """
        from bindery.analytics.spark import new_session  # noqa: PLC0415  # Spark: nothing else needs it

        return new_session()

    def __repr__(self) -> str:
        return "bindery.spark"

    def route(
        self,
        df: DataFrame,
        topology: Routes,
        mapping: Mapping[str, Any] | None = None,
        *,
        vhost: str = DEFAULT_VHOST,
    ) -> DataFrame:
        """The rows of a DataFrame, batch or streaming, with where each would go as a message; no table is written.

        `mapping` is what a job file has under `message`; without it the columns of `df` are those of a message. The
        topology is that of the moment of the call, in a streaming query too. Beside the columns of `df` there are
        `queues` (names, in order), `bindings` (structs of the bindings and diverts that matched on the way, by id),
        and, where a message reaches no queue or met a filter that could not be evaluated, `reason`, `disposition` and
        `detail`, those of the table of unroutable messages. A row that is no message has the reason too.

        Raises InvalidInput for a mapping that does not fit `df`, and for columns of these names in it; NotFound for no
        such vhost; DefinitionsRefused for definitions that cannot be applied.
        """
        from bindery.jobs.frames import routed  # noqa: PLC0415  # Spark

        return routed(df, topology_of(topology), mapping, vhost)

    def selector(
        self,
        text: str,
        *,
        dialect: str = "jms",
        columns: Mapping[str, Column | str] | None = None,
        payload: str | None = None,
    ) -> Column:
        """A filter as a column of booleans over any DataFrame: true, false, or null where it is unknown.

        Every name in it is the column of that name, a header's (`JMSPriority`) too; `columns` gives others for some of
        them. With `payload`, `json` or `text`, the column `body` holds bodies that it looks into. Raises FilterError,
        with the place, for a bad filter; InvalidInput for names in `columns` that it does not read, and a format that
        there is not. A name that is no column is Spark's error where the DataFrame is made.
        """
        from bindery.jobs.selector import selector  # noqa: PLC0415  # Spark

        return selector(text, dialect, columns, payload)

    def messages(self, df: DataFrame, mapping: Mapping[str, Any]) -> DataFrame:
        """The rows of a DataFrame as messages, for `writeStream.format("bindery")`.

        `mapping` is what a job file has under `message`. The columns are those of a message, and `refused`, which says
        of a row that is none why. Raises InvalidInput for a mapping that does not fit `df`.
        """
        from bindery.jobs.messages import messages  # noqa: PLC0415  # Spark

        return messages(df, mapping)

    def register(self, session: SparkSession) -> None:
        """Make the format `bindery` known to a session, as it is to that of `bindery.spark()`.

        Raises InvalidInput for a session of Spark Connect.
        """
        from bindery.analytics.spark import register_format  # noqa: PLC0415  # Spark

        register_format(session)


spark: Final = Spark()


def topology_of(given: Routes) -> Topology:
    """The topology that is meant, now. Raises DefinitionsRefused, and what opening a data directory does."""
    match given:
        case Topology():
            return given
        case Directory() | Snapshot():
            return given.topology
        case Mapping():
            return _defined("definitions", json.dumps(given, ensure_ascii=False).encode())
    path = Path(given)
    if not path.is_file():
        return TopologyStore(DataDir.open(given)).load()
    try:
        with path.open("rb") as file:
            return _defined(str(path), file.read(MAX_BYTES + 1))
    except OSError as error:
        raise InvalidInput(f"cannot read it: {error.strerror}", where=str(path)) from None


def _defined(name: str, document: bytes) -> Topology:
    """The topology that definitions alone make."""
    return read_change([read_source(name, document)], DEFAULT_VHOST).applied_to(Topology.empty())
