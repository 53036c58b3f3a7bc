"""The benchmarks whose answers are recorded, one after the other (`make bench-all`).

    python -m benchmarks.all [--quick] [--only route,match,filters,write,growth,latency,publish,deferred,peers]

Each is a program of its own; one that fails does not end the others. Their answers are in `results/latest.json`, and
docs/benchmarks.md with its charts is written from it. With --quick they are short, their answers are in
`results/quick.json` alone, and the page stays as it is.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

from benchmarks.results import LATEST, ROOT, VARIABLE

#: Name -> what `python -m` is given, and what more for a quick run.
BENCHMARKS: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {
    "route": (["benchmarks.bench_route"], ["--rows", "40000", "--rounds", "1"]),
    "match": (["benchmarks.bench_match"], []),
    "filters": (["benchmarks.bench_filters"], ["--rows", "20000", "--sizes", "1000", "--repeat", "3"]),
    "write": (["benchmarks.bench_write"], ["--messages", "10000", "--rounds", "1"]),
    "growth": (["benchmarks.bench_growth"], ["--rows", "2000", "--many", "1000", "--rounds", "1"]),
    "latency": (["benchmarks.bench_latency", "--seconds", "120"], ["--seconds", "5", "--warm", "3", "--queues", "500"]),
    "publish": (["benchmarks.bench_publish"], ["--seconds", "10", "--warm", "2"]),
    "deferred": (["benchmarks.bench_deferred"], ["--queues", "500", "--rows", "1000", "--freshness", "5"]),
    "peers": (["benchmarks.peers"], ["--quick"]),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """1 when one of them failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(BENCHMARKS), help="benchmarks, between commas")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args(arguments)
    only = options.only.split(",")
    if unknown := sorted({*only} - {*BENCHMARKS}):
        parser.error(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    environment = {**os.environ}
    if options.quick:
        environment[VARIABLE] = str(LATEST.with_name("quick.json"))
    failed = []
    for name in only:
        module, shorter = BENCHMARKS[name]
        started = time.monotonic()
        print(f"== {name}", flush=True)
        if not _ran([*module, *(shorter if options.quick else ())], environment):
            failed.append(name)
        print(f"== {name}: {time.monotonic() - started:.0f} s\n", flush=True)
    if not options.quick and not _ran(["handbook.figures"], environment):
        failed.append("docs/benchmarks.md")
    if failed:
        print(f"failed: {', '.join(failed)}")
    return int(bool(failed))


def _ran(module: Sequence[str], environment: Mapping[str, str]) -> bool:
    return subprocess.run([sys.executable, "-m", *module], env=environment, cwd=ROOT, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
