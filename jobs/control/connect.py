"""Spark Connect, which cannot run jobs: they need the JVM of the driver (broadcasts, files of a plan, foreachBatch)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bindery.router.errors import InvalidInput

_SCHEME: Final = "sc://"
#: PySpark sets it in a process that has a session of Spark Connect; processes started there inherit it.
_IN_A_SESSION: Final = "SPARK_CONNECT_MODE_ENABLED"
#: With it, spark-submit leaves out the classes of a classic session.
_BY_DEFAULT: Final = "SPARK_CONNECT_MODE"


def refuse_connect(
    *, master: str = "", conf: Mapping[str, str] | None = None, environment: Mapping[str, str] | None = None
) -> None:
    """Raise InvalidInput, naming the place, where one of the three asks for Spark Connect.

    PySpark asks whether some of the names are there at all, so an empty value is one, too.
    """
    if master.startswith(_SCHEME):
        raise connect_refused("master")
    for settings, present, mode in (
        (conf or {}, ("spark.remote",), "spark.api.mode"),
        (environment or {}, ("SPARK_REMOTE", _IN_A_SESSION), "SPARK_API_MODE"),
    ):
        for name in present:
            if name in settings:
                raise connect_refused(name)
        if settings.get(mode, "").lower() == "connect":
            raise connect_refused(mode)
    if environment and environment.get(_BY_DEFAULT) == "1":
        raise connect_refused(_BY_DEFAULT)


def connect_refused(where: str) -> InvalidInput:
    """The error for Spark Connect, asked for at that place."""
    return InvalidInput(
        "Spark Connect cannot run jobs, which need the JVM of the driver",
        where=where,
        hint="use `bindery route`, or spark-submit with --master (docs/deploy), without spark.remote, SPARK_REMOTE, "
        "and spark.api.mode=connect, and not from a notebook that has a session of Spark Connect",
    )
