"""Kills of the real programs at random moments, one after the other."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from tests.faults.real.installation import Installation
from tests.faults.real.programs import Stuck, until
from tests.faults.real.verdict import Verdict, judge

#: Kind of kill -> how often, relative to the others.
KINDS: Final = {"job": 6, "service": 4, "both": 3, "starting": 2, "stopped": 3, "jvm": 1, "workers": 1}
#: Seconds after a batch, or an answer, within which a kill happens: a batch and the pause before it.
_MOMENT: Final = 2.5


class Kills:
    """Kills, one at a time, and what must happen after each. Afterwards everything runs again."""

    def __init__(self, installation: Installation, say: Callable[[str], None]) -> None:
        self.installation = installation
        self.times: Counter[str] = Counter()
        self._say = say
        self._rng = installation.rng
        #: Seconds from the start of a driver to its first batch.
        self._start = 0.0
        self._kinds: dict[str, Callable[[], str]] = {
            "job": self._job,
            "service": self._service,
            "both": self._both,
            "starting": self._starting,
            "stopped": self._stopped,
            "jvm": self._jvm,
            "workers": self._workers,
        }

    def schedule(self, kills: int) -> list[str]:
        """So many kinds by chance."""
        return self._rng.choices(list(KINDS), list(KINDS.values()), k=kills)

    def run(self, kinds: Sequence[str]) -> None:
        """Kill by that schedule; the job runs before and after."""
        started = time.monotonic()
        self.installation.await_batch()
        self._start = time.monotonic() - started
        for number, kind in enumerate(kinds, start=1):
            self.installation.await_batch()
            self.installation.await_answer()
            moment = self._rng.uniform(0, _MOMENT)
            time.sleep(moment)
            what = self._kinds[kind]()
            self.times[kind] += 1
            self._say(f"{number:3} of {len(kinds)}  {kind:8}  {what}  ({time.monotonic() - started:.0f} s)")
        self.installation.await_batch()
        self.installation.await_answer()

    def _job(self) -> str:
        killed = self.installation.job.kill()
        self.installation.start_job()
        return f"{killed} processes"

    def _service(self) -> str:
        killed = self.installation.kill_service()
        self.installation.start_service()
        return f"{killed} processes"

    def _both(self) -> str:
        killed = self.installation.job.kill() + self.installation.kill_service()
        self.installation.start_service()
        self.installation.start_job()
        return f"{killed} processes"

    def _starting(self) -> str:
        """A driver is killed, and its successor while it starts or works on the batch that was left."""
        self.installation.job.kill()
        self.installation.start_job()
        seconds = self._rng.uniform(0, self._start)
        time.sleep(seconds)
        killed = self.installation.job.kill()
        self.installation.start_job()
        return f"{killed} processes, {seconds:.1f} s after the start"

    def _stopped(self) -> str:
        """A driver stands still until another one has taken the stream: it must notice when it goes on."""
        old = self.installation.job
        stopped = old.signal(signal.SIGSTOP)
        self.installation.start_job()
        self.installation.await_batch()
        old.signal(signal.SIGCONT)
        code = self.installation.check_end(old, "job, overtaken", 3)
        old.kill()
        return f"{stopped} processes stopped, exit code {code} after the other driver's first batch"

    def _jvm(self) -> str:
        """The JVM alone: the driver must say so and end."""
        job = self.installation.job
        killed = job.signal(signal.SIGKILL, only="java")
        code = self.installation.check_end(job, "job without its JVM", 1)
        job.kill()
        self.installation.start_job()
        return f"{killed} process, exit code {code}"

    def _workers(self) -> str:
        """Python workers alone: the batch that needs them fails and with it the job, or Spark starts others."""
        job = self.installation.job
        batches = self.installation.batches
        seen = batches.count
        killed = job.signal(signal.SIGKILL, only="pyspark.daemon")
        until("a batch, or the end of the job", lambda: job.ended is not None or batches.count > seen + 1)
        if job.ended is None:
            return f"{killed} processes, the job went on"
        code = self.installation.check_end(job, "job without its workers", 1)
        job.kill()
        self.installation.start_job()
        return f"{killed} processes, exit code {code}"


def kill_loop(
    folder: Path, *, seed: str, kinds: Sequence[str] | int, say: Callable[[str], None]
) -> tuple[Installation, Counter[str], Verdict]:
    """A whole run: an installation in that folder, kills by schedule or so many by chance, and the verdict."""
    installation = Installation(folder, folder / "data", seed=seed)
    try:
        installation.open()
        installation.start_job()
        kills = Kills(installation, say)
        kills.run(kills.schedule(kinds) if isinstance(kinds, int) else kinds)
        say("draining")
        installation.drain()
    except Stuck as error:
        for fault in installation.faults:
            error.add_note(fault)
        raise
    finally:
        installation.close()
    say("comparing")
    return installation, kills.times, judge(installation.data, installation.ledger)
