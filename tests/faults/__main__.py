"""Every fault at every effect, and as many random schedules as asked for: `make faults SCHEDULES=20000 STORE=s3`."""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter

from rich.console import Console
from rich.table import Table

from tests.faults.grounds import GROUNDS, Ground
from tests.faults.injection import KINDS, Met
from tests.faults.parallel import every_effect, random_schedules, run


def show(met: Met, ground: Ground, seconds: float) -> None:
    """What was tried, by operation and effect and kind of fault."""
    console = Console(width=120)
    table = Table("operation", "effect", *KINDS[ground], title="Faults met")
    cells: dict[tuple[str, str], Counter[str]] = {}
    for (operation, effect, place, kind), times in met.faults.items():
        cells.setdefault((operation, f"{effect} {place}"), Counter())[kind] += times
    for (operation, effect), kinds in sorted(cells.items()):
        table.add_row(operation, effect, *(str(kinds[kind]) for kind in KINDS[ground]))
    console.print(table)
    operations = ", ".join(f"{name} {times}" for name, times in sorted(met.operations.items()))
    console.print(f"operations: {operations}")
    batches = ", ".join(f"{times:,} with {what} deferred" for what, times in sorted(met.batches.items()))
    console.print(f"batches: {batches}; {met.flushed:,} copies flushed")
    console.print(f"{met.schedules} schedules, {sum(met.faults.values())} faults, {seconds:.0f} s")


def main() -> int:
    """Run; 0 when nothing was lost, doubled or half done."""
    parser = argparse.ArgumentParser(description="Schedules of operations and faults against a model.")
    parser.add_argument("--store", choices=GROUNDS, default="local", help="a folder, or an object store")
    parser.add_argument("--schedules", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 31))
    options = parser.parse_args()
    started = time.monotonic()
    ground: Ground = options.store
    calls = [*every_effect(ground), *random_schedules(options.schedules, options.seed, ground)]
    met, failures = run(calls, ground)
    show(met, ground, time.monotonic() - started)
    for failure in failures:
        sys.stderr.write(f"FAILED: {failure}\n")
    if failures:
        return 1
    Console().print(f"seed {options.seed}: lost 0, doubled 0")
    return 0


if __name__ == "__main__":
    sys.exit(main())
