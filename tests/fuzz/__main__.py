"""Run the fuzzing targets: `python -m tests.fuzz [--seconds 20] [--corpus DIR] [TARGET …]`.

Each target runs in a process of its own for so many seconds, from its seeds and from what earlier runs kept in
the corpus folder. Exit code 1 when one of them found something; libFuzzer prints the input, and keeps it in the
current folder as `crash-…`, `timeout-…` or `oom-…`. Put it into a unit test when it is fixed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

#: Libraries whose branches guide the search, besides our own.
_GUIDED = ["router"]


def _fuzz(target: str, corpus: Path, seconds: int) -> None:
    """In the child: hand over to libFuzzer, which does not return."""
    import atheris

    with atheris.instrument_imports(include=_GUIDED):
        from tests.fuzz.targets import SEEDS, TARGETS
    for number, seed in enumerate(SEEDS[target]):
        (corpus / f"seed-{number}").write_bytes(seed)
    options = [f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=2048", "-max_len=4096", "-verbosity=0"]
    atheris.Setup([sys.argv[0], *options, "-print_final_stats=1", str(corpus)], TARGETS[target])
    atheris.Fuzz()


def main() -> int:
    """Start a process for each target; see the module's text."""
    names = ["text-filter", "filter-set", "xpath", "xml", "message"]
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(names)}; default: all")
    parser.add_argument("--seconds", type=int, default=20, help="for each target (default 20)")
    parser.add_argument("--corpus", type=Path, help="a folder that keeps what was learnt")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if set(options.targets) - set(names):
        parser.error(f"targets are {', '.join(names)}")
    if options.child:
        _fuzz(options.child, options.corpus, options.seconds)
    failed = []
    with tempfile.TemporaryDirectory() as scratch:
        for target in options.targets or names:
            corpus = (options.corpus or Path(scratch)) / target
            corpus.mkdir(parents=True, exist_ok=True)
            print(f"== {target}: {options.seconds} s", flush=True)  # noqa: T201  # a command
            command = [sys.executable, "-m", "tests.fuzz", "--child", target, "--corpus", str(corpus)]
            if subprocess.run([*command, "--seconds", str(options.seconds)], check=False).returncode:
                failed.append(target)
    print(f"found something in: {', '.join(failed)}" if failed else "nothing found")  # noqa: T201  # a command
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
