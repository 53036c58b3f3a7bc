"""Bindery: broker-style message routing on Spark, one Delta table per queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bindery.store.read import read_queue as read_queue

__all__ = ["read_queue"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """What the package offers, imported at its first use: `import bindery` alone stays fast."""
    if name == "read_queue":
        from bindery.store.read import read_queue  # noqa: PLC0415  # lazily, see above

        return read_queue
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
