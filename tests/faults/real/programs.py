"""Programs in sessions of their own, ended and stopped with everything that they have started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

T = TypeVar("T")

ROOT: Final = Path(__file__).parents[3]
BINDERY: Final = (sys.executable, "-m", "bindery.cli.main")
#: Seconds until an event that has not happened is taken for one that never will.
PATIENCE: Final = 600
_POLL: Final = 0.05


class Stuck(Exception):
    """An event did not happen in time."""


def until(event: str, look: Callable[[], T | None], *, patience: float = PATIENCE) -> T:
    """What `look` gives once it is neither None nor False; raises Stuck naming the event."""
    end = time.monotonic() + patience
    while True:
        found = look()
        if found is not None and found is not False:
            return found
        if time.monotonic() > end:
            raise Stuck(f"not within {patience:.0f} s: {event}")
        time.sleep(_POLL)


def end_on_sigterm() -> None:
    """Let the first SIGTERM unwind this process as Ctrl-C does, so that the programs it has started are ended too."""

    def unwind(_number: int, _frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, unwind)


class Program:
    """A `bindery` command that runs; what it prints goes to a file.

    Its process leads a session, and nothing that it starts leaves that session (PySpark's workers leave
    its process group). The leader is not reaped before `kill`, so the number of the session stays its own.
    """

    def __init__(self, arguments: Sequence[str], *, log: Path, environment: Mapping[str, str]) -> None:
        self.log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [*BINDERY, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**environment, "PYTHONPATH": str(ROOT)},
                cwd=log.parent,
                start_new_session=True,
            )

    @property
    def output(self) -> str:
        """What it has printed so far."""
        return self.log.read_text("utf-8", "replace")

    @property
    def ended(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        if self._process.returncode is not None:
            return self._process.returncode
        state = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if state is None:
            return None
        return state.si_status if state.si_code == os.CLD_EXITED else -state.si_status

    def wait(self) -> int:
        """Its exit code, once it has ended by itself."""
        return until(f"the end of {self.log.stem}", lambda: self.ended)

    def processes(self) -> dict[int, str]:
        """Process id -> command line, of everything in its session that is alive."""
        if self._process.returncode is not None:
            return {}
        found = {}
        for folder in Path("/proc").iterdir():
            if folder.name.isdecimal():
                with suppress(FileNotFoundError, ProcessLookupError):
                    fields = (folder / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
                    if int(fields[3]) == self._process.pid and fields[0] not in "ZX":
                        found[int(folder.name)] = (folder / "cmdline").read_text("utf-8", "replace")
        return found

    def signal(self, number: signal.Signals, *, only: str = "") -> int:
        """Send a signal to every process whose command line has the text; how many there were."""
        pids = [pid for pid, command in self.processes().items() if only in command]
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        return len(pids)

    def ask_to_end(self) -> None:
        """SIGTERM to the program itself."""
        if self.ended is None:
            os.kill(self._process.pid, signal.SIGTERM)

    def kill(self) -> int:
        """SIGKILL to everything, until nothing is left; how many processes there were."""
        killed = self.signal(signal.SIGKILL)
        until(f"{self.log.stem} is dead", lambda: not self.signal(signal.SIGKILL))
        self._process.wait()
        return killed
