"""Commands that are run again and again beside the programs, every other time with a kill at a random moment."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Final

from tests.faults.real.ledger import Ledger
from tests.faults.real.programs import Program
from tests.faults.real.traffic import Worker

#: Seconds between two runs, on average; a run takes about two of a core.
PAUSE: Final = 2.0


class Companion(Worker):
    """Runs one command of `bindery`, and says how often it `ended` and was `killed`.

    `start` starts a command, `check` takes down an end that should not be and gives the exit code.
    """

    def __init__(
        self,
        command: str,
        seed: str,
        ledger: Ledger,
        start: Callable[[str], Program],
        check: Callable[[Program, str], int],
    ) -> None:
        super().__init__(command, seed, ledger, PAUSE)
        self.times: Counter[str] = Counter()
        self._start_command = start
        self._check = check
        #: Seconds that the last whole run took: kills come within them.
        self._took = 3.0

    def work(self) -> None:
        kill = self.rng.random() < 0.5
        moment = self.rng.uniform(0, self._took)
        begun = time.monotonic()
        program = self._start_command(self.name)
        if kill:
            while program.ended is None and time.monotonic() < begun + moment:
                time.sleep(0.01)
        if not kill or program.ended is not None:
            self._check(program, self.name)
            self.times["ended"] += 1
            self._took = time.monotonic() - begun
        else:
            self.times["killed"] += 1
        program.kill()
