"""A disk that is full at random moments: a file of ballast on a file system of limited size.

The file system is a tmpfs in a mount namespace of this process and its children; it is gone with them.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.faults.real.installation import Installation
from tests.faults.real.programs import ROOT, Stuck, end_on_sigterm, until
from tests.faults.real.report import passed, render
from tests.faults.real.verdict import Verdict, judge

#: Bytes of the file system for the tests' few fillings and for each further one.
_SIZE: Final = 256 * 2**20
_MORE: Final = 32 * 2**20
#: Seconds after a batch within which the disk is filled, and for which it then stays full at most.
_MOMENT: Final = 2.5
_FULL: Final = 30
#: Publications that fail before there is room again.
_FAILURES: Final = 3
_PAGE: Final = 4096
_TRIES: Final = 100


class Ballast:
    """A file that takes the free space of a file system but for a few pages."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "ballast"

    def fill(self, pages: int) -> None:
        """Leave so many pages, or a few less where others write meanwhile."""
        with self._file.open("wb") as file:
            held = 0
            for _ in range(_TRIES):
                free = _free(self._file) - pages * _PAGE
                if free < _PAGE:
                    return
                # somebody may take some of it between the look and the call
                with suppress(OSError):
                    os.posix_fallocate(file.fileno(), held, free)
                    held += free

    def drop(self) -> None:
        """Make room again."""
        self._file.unlink()


def _free(path: Path) -> int:
    state = os.statvfs(path.parent)
    return state.f_bavail * state.f_frsize


class Fillings:
    """Fillings, one at a time, and what must happen after each. Afterwards everything runs again."""

    def __init__(self, installation: Installation, ballast: Ballast, say: Callable[[str], None]) -> None:
        self.installation = installation
        self.times: Counter[str] = Counter()
        self._ballast = ballast
        self._say = say
        self._rng = installation.rng

    def run(self, fillings: int) -> None:
        """The first filling meets the first start of the job, the others meet what is running."""
        started = time.monotonic()
        self._first_start()
        for number in range(1, fillings + 1):
            self.installation.await_batch()
            self.installation.await_answer()
            time.sleep(self._rng.uniform(0, _MOMENT))
            what = self._fill()
            self._say(f"{number:3} of {fillings}  {what}  ({time.monotonic() - started:.0f} s)")
        self.installation.await_batch()
        self.installation.await_answer()

    def _first_start(self) -> None:
        """A job that finds no room when it starts for the first time can be started once there is some."""
        pages = self._pages()
        self._ballast.fill(pages)
        job = self.installation.start_job()
        code = self.installation.check_end(job, "job, first start on a full disk", 1)
        job.kill()
        self._ballast.drop()
        self.installation.start_job()
        self.times["at the first start"] += 1
        self._say(f"{pages * 4} KiB left at the first start: exit code {code}")

    def _fill(self) -> str:
        installation = self.installation
        job, pages, before = installation.job, self._pages(), self._failures
        self._ballast.fill(pages)
        end = time.monotonic() + _FULL
        until(
            "a failure by the full disk",
            lambda: job.ended is not None or self._failures >= before + _FAILURES or time.monotonic() > end,
        )
        time.sleep(self._rng.uniform(0, _MOMENT))
        failed = self._failures - before
        self._ballast.drop()
        # what failed for want of room is told by the end of the job, before it commits another batch
        seen = installation.batches.count
        until("a batch, or the end of the job", lambda: job.ended is not None or installation.batches.count > seen)
        self.times["job ended" if job.ended is not None else "job went on"] += 1
        what = f"{pages * 4} KiB left, {failed} publications failed"
        if job.ended is None:
            return f"{what}, the job went on"
        code = installation.check_end(job, "job, full disk", 1)
        job.kill()
        installation.start_job()
        return f"{what}, the job ended with {code}"

    @property
    def _failures(self) -> int:
        return sum(self.installation.ledger.errors.values())

    def _pages(self) -> int:
        """Nothing, a few pages, or room for some of a batch's files."""
        return self._rng.choice([0, self._rng.randrange(1, 16), self._rng.randrange(16, 256)])


def disk_loop(
    folder: Path, *, seed: str, fillings: int, say: Callable[[str], None]
) -> tuple[Installation, Counter[str], Verdict]:
    """A whole run on a file system of its own; needs a process that may mount."""
    disk = folder / "disk"
    disk.mkdir(parents=True)
    size = _SIZE + _MORE * fillings
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "bindery-faults", str(disk)], check=True)
    installation = Installation(folder, disk / "data", seed=seed, may_fail=True)
    try:
        installation.open()
        fillings_run = Fillings(installation, Ballast(disk), say)
        fillings_run.run(fillings)
        say("draining")
        installation.drain()
    except Stuck as error:
        for fault in installation.faults:
            error.add_note(fault)
        raise
    finally:
        installation.close()
    say("comparing")
    return installation, fillings_run.times, judge(installation.data, installation.ledger)


def namespace() -> list[str]:
    """The command that gives what follows it a mount namespace; raises PermissionError with the reason."""
    said = []
    for command in (["unshare", "--mount"], ["unshare", "--map-root-user", "--mount"]):
        try:
            tried = subprocess.run(
                [*command, "mount", "-t", "tmpfs", "-o", "size=1m", "bindery-faults", "/mnt"],
                capture_output=True,
                text=True,
                check=False,
            )
        except FileNotFoundError:
            raise PermissionError("there is no unshare (util-linux)") from None
        if tried.returncode == 0:
            return command
        said.append(tried.stderr.strip())
    raise PermissionError("; ".join(said))


def fill_disks(folder: Path, *, seed: str, fillings: int) -> int:
    """A whole run in a process of its own that may mount; its exit code. Raises PermissionError."""
    module = [sys.executable, "-m", "tests.faults.real.full_disk"]
    arguments = [*namespace(), *module, str(folder), "--seed", seed, "--fillings", str(fillings)]
    with subprocess.Popen(arguments, cwd=ROOT) as process:
        try:
            return process.wait()
        finally:
            process.terminate()


def main() -> int:
    """Within the namespace: run, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.real.full_disk", description=__doc__)
    parser.add_argument("folder", type=Path, help="for the file system and what the programs print")
    parser.add_argument("--seed", default=str(random.randrange(10**6)))
    parser.add_argument("--fillings", type=int, default=10)
    options = parser.parse_args()
    end_on_sigterm()
    run = disk_loop(options.folder, seed=options.seed, fillings=options.fillings, say=say)
    installation, times, verdict = run
    print(render(f"full disks: {options.fillings + 1}", times, installation, verdict), flush=True)  # noqa: T201
    return 0 if passed(installation, verdict) else 1


def say(what: str) -> None:
    """Print a line at once."""
    print(what, flush=True)  # noqa: T201  # a command


if __name__ == "__main__":
    sys.exit(main())
