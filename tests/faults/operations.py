"""The operations that faults are put into, and what other processes may do in the middle of each."""

from __future__ import annotations

from collections.abc import Callable

from tests.faults.injection import Injection
from tests.faults.world import World

RIVALS = {
    "route": ("takeover", "publish", "redrive", "maintain", "edit"),
    "flush": ("flush", "route", "maintain", "edit"),
    "publish": ("route", "redrive", "maintain", "edit"),
    "redrive": ("redrive", "backfill", "publish", "maintain", "edit"),
    "backfill": ("backfill", "redrive", "route", "maintain", "edit"),
    "append": ("append", "maintain"),
    "change queues": ("edit", "maintain"),
    "change rows": ("edit", "maintain", "flush"),
    "move": ("move", "maintain", "edit"),
    "maintain": ("route", "publish", "redrive", "move", "append", "edit", "maintain"),
}


def backfill_anew(world: World, fault: Injection | None) -> None:
    """A queue that is new is brought what it has missed."""
    world.declare("c", None)
    world.backfill("c", fault)


OPERATIONS: dict[str, tuple[Callable[[World, Injection | None], None], tuple[str, ...]]] = {
    "stream": (lambda world, fault: world.route(fault), RIVALS["route"]),
    "flush": (lambda world, fault: world.flush(fault), RIVALS["flush"]),
    "publish": (lambda world, fault: world.publish(fault), RIVALS["publish"]),
    "redrive": (lambda world, fault: world.redrive(fault), RIVALS["redrive"]),
    "backfill": (backfill_anew, RIVALS["backfill"]),
    "inbox": (lambda world, fault: world.append(fault), RIVALS["append"]),
    "declare": (lambda world, fault: world.declare("c", fault), RIVALS["change queues"]),
    "import": (lambda world, fault: world.import_all(fault), RIVALS["change queues"]),
    "delete": (lambda world, fault: world.delete("a", fault), RIVALS["change queues"]),
    "get": (lambda world, fault: world.take("a", 4, requeue=False, injection=fault), RIVALS["change rows"]),
    "requeue": (lambda world, fault: world.take("a", 4, requeue=True, injection=fault), RIVALS["change rows"]),
    "purge": (lambda world, fault: world.remove("a", purge=True, injection=fault), RIVALS["change rows"]),
    "delete rows": (lambda world, fault: world.remove("a", purge=False, injection=fault), RIVALS["change rows"]),
    "move": (lambda world, fault: world.move("a", 4, through_exchange=True, injection=fault), RIVALS["move"]),
    "drop head": (lambda world, fault: world.limit("a", 2, False, fault), RIVALS["change rows"]),
    "dead letters": (lambda world, fault: world.limit("a", 2, True, fault), RIVALS["move"]),
    "access": (lambda world, fault: world.change_user("b", fault), ()),
    "jobs": (lambda world, fault: world.save_job("b", fault), ()),
    "forget": (lambda world, fault: world.forget_job("b", fault), ()),
    "maintain": (lambda world, fault: world.maintain(fault), RIVALS["maintain"]),
    "checkpoint": (lambda world, fault: world.checkpoint(0, fault), ()),
}
