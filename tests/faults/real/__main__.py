"""Kill the real programs, fill their disk: `python -m tests.faults.real [--kills 50] [--fillings 10] [--seed N]`.

`bindery serve` and `bindery route` run while records arrive, messages are published by REST and the topology
changes; some queues are deferred, others are not, and some become either. `bindery materialise` and `bindery maintain`
are run beside them again and again. All of them are killed with everything that they have started, one of two drivers
is stopped and goes on, the disk is full. Then every table is compared with what was sent. Exit code 1 when anything is
lost, doubled or wrong; what the programs left and printed is kept then.

On two idle cores a kill takes about 14 s and a filling about 20 s.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from pathlib import Path

from tests.faults.real.full_disk import fill_disks, say
from tests.faults.real.kills import kill_loop
from tests.faults.real.programs import end_on_sigterm
from tests.faults.real.report import passed, render


def _kill(folder: Path, kills: int, seed: str) -> bool:
    installation, times, verdict = kill_loop(folder, seed=seed, kinds=kills, say=say)
    say(render(f"kill -9: {kills} kills", times, installation, verdict))
    return passed(installation, verdict)


def _fill(folder: Path, fillings: int, seed: str) -> bool:
    try:
        return fill_disks(folder, seed=seed, fillings=fillings) == 0
    except PermissionError as error:
        say(f"full disks: skipped, mounting is not permitted here: {error}")
        return True


def main() -> int:
    """See the module's text."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults.real", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--fillings", type=int, default=10)
    parser.add_argument("--seed", default=str(random.randrange(10**6)), help="decides kinds and moments")
    options = parser.parse_args()
    end_on_sigterm()
    folder = Path(tempfile.mkdtemp(prefix="bindery-faults-"))
    fine = [
        *([_kill(folder / "kills", options.kills, options.seed)] if options.kills else []),
        *([_fill(folder / "disks", options.fillings, options.seed)] if options.fillings else []),
    ]
    if all(fine):
        shutil.rmtree(folder)
        return 0
    say(f"FAILED; see {folder}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
