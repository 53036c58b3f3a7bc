"""Points at which a test stops a process, or loses an answer, around every durable effect.

`bindery.store.effects` reaches a point before and after whatever it does to the disk, named
"<effect>.before" and "<effect>.after", with the path that is touched. A hook that raises at "after" stands for
an effect that was done and whose answer was lost; one that raises something that nobody catches stands
for a process that died there. Requests to an object store have points, too, which its places reach:
"<kind>.asked" and "<kind>.answered". Committers reach points of their own between effects, such as
"batch.appending". Without a hook a point costs one comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: Called with the name of a point and the path that it is about.
Hook = Callable[[str, str], None]

_hook: Hook | None = None


def reach(point: str, path: str) -> None:
    """Tell the hook, if there is one, that a point has been reached."""
    if _hook is not None:
        _hook(point, path)


def is_effect(point: str) -> bool:
    """Whether a point is one before or after an effect, where the disk can fail."""
    return point.endswith((".before", ".after"))


@contextmanager
def installed(hook: Hook) -> Iterator[None]:
    """Have every thread of this process call the hook at each point, as long as the block runs."""
    global _hook  # noqa: PLW0603  # one hook for the process: effects happen on threads that nobody hands a hook to
    before, _hook = _hook, hook
    try:
        yield
    finally:
        _hook = before
