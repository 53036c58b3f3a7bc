"""Spark Connect, which cannot run jobs: they need the JVM of the driver (broadcasts, files of a plan, foreachBatch)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bindery.router.errors import InvalidInput

_SCHEME: Final = "sc://"


def refuse_connect(
    *, master: str = "", conf: Mapping[str, str] | None = None, environment: Mapping[str, str] | None = None
) -> None:
    """Raise InvalidInput, naming the place, where one of the three asks for Spark Connect."""
    if master.startswith(_SCHEME):
        raise connect_refused("master")
    for settings, remote, mode in (
        (conf or {}, "spark.remote", "spark.api.mode"),
        (environment or {}, "SPARK_REMOTE", "SPARK_API_MODE"),
    ):
        if settings.get(remote):
            raise connect_refused(remote)
        if settings.get(mode, "").lower() == "connect":
            raise connect_refused(mode)


def connect_refused(where: str) -> InvalidInput:
    """The error for Spark Connect, asked for at that place."""
    return InvalidInput(
        "Spark Connect cannot run jobs, which need the JVM of the driver",
        where=where,
        hint="use `bindery route`, or spark-submit with --master (docs/deploy), without spark.remote, SPARK_REMOTE, "
        "and spark.api.mode=connect",
    )
