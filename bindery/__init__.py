"""Bindery: broker-style message routing on Spark, one Delta table per queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bindery.analytics.directory import Directory as Directory
    from bindery.analytics.directory import Journal as Journal
    from bindery.analytics.directory import Queue as Queue
    from bindery.analytics.directory import Snapshot as Snapshot
    from bindery.analytics.directory import open as open
    from bindery.analytics.embedded import spark as spark
    from bindery.store.read import read_queue as read_queue

__all__ = ["Directory", "Journal", "Queue", "Snapshot", "open", "read_queue", "spark"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """What the package offers, imported at its first use: `import bindery` alone stays fast."""
    if name == "read_queue":
        from bindery.store.read import read_queue  # noqa: PLC0415  # lazily, see above

        return read_queue
    if name == "spark":
        from bindery.analytics.embedded import spark  # noqa: PLC0415  # lazily, see above

        return spark
    if name in __all__:
        from bindery.analytics import directory  # noqa: PLC0415  # lazily, see above

        return getattr(directory, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
