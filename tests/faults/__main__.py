"""Random schedules of operations and faults, as many as asked for: `make faults SCHEDULES=20000`."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from collections import Counter

from rich.console import Console
from rich.table import Table

from tests.faults.injection import KINDS, Met


def show(met: Met, seconds: float) -> None:
    """What was tried, by operation and effect and kind of fault."""
    console = Console(width=120)
    table = Table("operation", "effect", *KINDS, title="Faults met")
    cells: dict[tuple[str, str], Counter[str]] = {}
    for (operation, effect, place, kind), times in met.faults.items():
        cells.setdefault((operation, f"{effect} {place}"), Counter())[kind] += times
    for (operation, effect), kinds in sorted(cells.items()):
        table.add_row(operation, effect, *(str(kinds[kind]) for kind in KINDS))
    console.print(table)
    operations = ", ".join(f"{name} {times}" for name, times in sorted(met.operations.items()))
    console.print(f"operations: {operations}")
    console.print(f"{met.schedules} schedules, {sum(met.faults.values())} faults, {seconds:.0f} s")


def main() -> int:
    """Run; 0 when nothing was lost, doubled or half done."""
    parser = argparse.ArgumentParser(description="Schedules of operations and faults against a model.")
    parser.add_argument("--schedules", type=int, default=20_000)
    options = parser.parse_args()
    os.environ["BINDERY_FAULT_SCHEDULES"] = str(options.schedules)
    logging.disable(logging.CRITICAL)  # every fault is a line of the program's log
    from tests.faults import test_schedules  # reads the number above

    started = time.monotonic()
    try:
        test_schedules.test_no_schedule_loses_or_doubles_anything()
    except AssertionError as failed:
        sys.stderr.write(f"FAILED: {failed}\n")
        return 1
    finally:
        show(test_schedules.MET, time.monotonic() - started)
    Console().print("lost 0, doubled 0")
    return 0


if __name__ == "__main__":
    sys.exit(main())
