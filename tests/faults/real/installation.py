"""One data directory, the programs that work on it, and everybody who uses them."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bindery.store.paths import DataDir
from tests.faults.real.companions import Companion
from tests.faults.real.ledger import EXCHANGES, Ledger
from tests.faults.real.programs import Program, Stuck, until
from tests.faults.real.traffic import (
    FRESHNESS,
    PASSWORD,
    PERMANENT,
    STREAM,
    USER,
    Address,
    Administrator,
    Connection,
    Producer,
    Publisher,
    Worker,
    queue_of,
)

_JOB: Final = """\
stream: {stream}
source:
  format: json
  path: {inbox}
  schema: id STRING, exchange STRING, key STRING, number BIGINT, kind STRING
  options: {{maxFilesPerTrigger: 20}}
message:
  exchange: exchange
  routing_key: key
  application_properties: {{id: id, number: number, kind: kind}}
trigger: 1 second
"""
#: What catches every message, and where the alternate leads; neither is ever changed.
_TYPES: Final = {"flow": "topic", "head": "headers", "spread": "fanout", "loose": "direct", "rescue": "fanout"}
_GUARDS: Final = {"flow": {"routing_key": "#"}, "head": {"arguments": {"x-match": "all"}}, "spread": {}}
_LISTENING: Final = re.compile(r"listening on http://127\.0\.0\.1:(\d+)")
_LINES: Final = 12
#: Ends of the job that nobody caused, after which a run is given up.
_UNCAUSED: Final = 5


class Batches:
    """Counts the batches that a stream has committed, by following the log of the manifest."""

    def __init__(self, manifest: str, stream: str) -> None:
        self._log = Path(manifest, "_delta_log")
        self._prefix = f"{stream}:"
        self._next = 0
        self._count = 0

    @property
    def count(self) -> int:
        """Batches committed until now."""
        while (entry := self._log / f"{self._next:020}.json").exists():
            for line in entry.read_text("utf-8").splitlines():
                transaction = json.loads(line).get("txn")
                self._count += transaction is not None and transaction["appId"].startswith(self._prefix)
            self._next += 1
        return self._count


class Installation:
    """Programs, users and books. `faults` takes down what should not have happened.

    Beside service and job `companions` flush deferred queues and maintain tables, and are killed. `folder` is for what
    the programs print and need beside the data directory. With `may_fail` the service may answer that it cannot do what
    it is asked for.
    """

    def __init__(self, folder: Path, data: Path, *, seed: str, may_fail: bool = False) -> None:
        self.folder = folder
        self.may_fail = may_fail
        self.seed = seed
        self.rng = random.Random(seed)
        self.ledger = Ledger()
        self.faults: list[str] = []
        self.exits: Counter[tuple[str, int]] = Counter()
        self.inbox = folder / "inbox"
        self.inbox.mkdir(parents=True)
        self.data = DataDir.open(data, create=True)
        self.batches = Batches(self.data.manifest, STREAM)
        self._config = folder / "job.yaml"
        self._config.write_text(_JOB.format(stream=STREAM, inbox=self.inbox))
        self._address = Address()
        self._logs = 0
        self._programs: list[Program] = []
        self._starting = threading.Lock()
        self._jobs = 0
        self._uncaused = 0
        self.service: Program
        self.job: Program
        self._users: list[Worker] = [
            Producer(seed, self.ledger, self.inbox),
            Publisher(1, seed, self.ledger, self._address),
            Publisher(2, seed, self.ledger, self._address),
            Administrator(seed, self.ledger, self._address),
        ]
        self.companions = [
            Companion(command, seed, self.ledger, self._start, self._check_companion)
            for command in ("materialise", "maintain")
        ]

    # -- programs -----------------------------------------------------------------------------------

    def _start(self, name: str, *arguments: str) -> Program:
        scratch = self.folder / "scratch"
        scratch.mkdir(exist_ok=True)
        environment: Mapping[str, str] = {
            **{name: value for name, value in os.environ.items() if not name.startswith("BINDERY_")},
            "BINDERY_ADMIN_USER": USER,
            "BINDERY_ADMIN_PASSWORD": PASSWORD,
            "TMPDIR": str(scratch),
            "SPARK_LOCAL_DIRS": str(scratch),
        }
        with self._starting:  # companions start on threads of their own
            self._logs += 1
            log = self.folder / f"{self._logs:03}-{name}.log"
            program = Program([name, "--data", self.data.root, *arguments], log=log, environment=environment)
            self._programs.append(program)
        return program

    def start_service(self) -> None:
        """Start the control plane and wait until it listens."""
        self.service = self._start("serve", "--port", "0")
        self._address.set(int(until("the service listens", self._listening)[1]))

    def _listening(self) -> re.Match[str] | None:
        code = self.service.ended
        if code is not None:
            raise Stuck(f"the service ended with {code}:\n{tail(self.service)}")
        return _LISTENING.search(self.service.output)

    def kill_service(self) -> int:
        """kill -9; how many processes."""
        self._address.set(None)
        return self.service.kill()

    def start_job(self, *more: str) -> Program:
        """Start a driver of the stream; it may take the stream from one that runs."""
        self._jobs += 1
        log = self.folder / f"spark-{self._jobs:03}.log"
        self.job = self._start("route", "--config", str(self._config), "--master", "local[2]", "--log", str(log), *more)
        return self.job

    # -- events -------------------------------------------------------------------------------------

    def await_batch(self) -> None:
        """Wait until the job has committed another batch; start it again when it has ended by itself."""
        seen = self.batches.count

        def committed() -> bool:
            if self.job.ended is not None:
                self._uncaused += 1
                self.fault(f"the job ended by itself with {self.job.ended}:\n{tail(self.job)}")
                if self._uncaused >= _UNCAUSED:
                    raise Stuck("the job ends by itself again and again")
                self.job.kill()
                self.start_job()
            return self.batches.count > seen

        until("a batch of the job", committed)

    def await_answer(self) -> None:
        """Wait until the service has answered another publisher."""
        seen = len(self.ledger.routed)

        def answered() -> bool:
            if self.service.ended is not None:
                self.fault(f"the service ended by itself with {self.service.ended}:\n{tail(self.service)}")
                self.kill_service()
                self.start_service()
            return len(self.ledger.routed) > seen

        until("an answer of the service", answered)

    def fault(self, what: str) -> None:
        """Take down what should not have happened."""
        self.faults.append(what)

    def check_end(self, program: Program, what: str, *codes: int) -> int:
        """Take down an exit code that is none of those, or a traceback; gives the code."""
        code = program.wait()
        self.exits[what, code] += 1
        if code not in codes:
            self.fault(f"{what}: exit code {code}, expected {' or '.join(map(str, codes))}:\n{tail(program)}")
        elif "Traceback (most recent call last)" in program.output:
            self.fault(f"{what}: a traceback:\n{tail(program)}")
        return code

    def _check_companion(self, program: Program, what: str) -> int:
        return self.check_end(program, what, 0, *([1] if self.may_fail else []))

    # -- from the beginning to the end --------------------------------------------------------------

    def open(self) -> None:
        """Start the service, declare what stays, and let everybody begin; the job is not started."""
        self.start_service()
        connection = Connection(self._address)

        def call(method: str, path: str, body: object) -> None:
            status, answer = connection.call(method, path, body)
            if status not in (201, 204):
                raise Stuck(f"{method} {path}: {status} {answer}")

        freshness = self.rng.sample(FRESHNESS, len(FRESHNESS))
        for name, seconds in zip(("all", *PERMANENT), freshness, strict=True):
            call("PUT", f"/queues/%2F/{name}", queue_of(seconds))
        for name, kind in _TYPES.items():
            call("PUT", f"/exchanges/%2F/{name}", {"type": kind, "durable": True})
        for name, binding in _GUARDS.items():
            call("POST", f"/bindings/%2F/e/{name}/q/all", binding)
        call("POST", "/bindings/%2F/e/rescue/q/p5", {})
        assert set(EXCHANGES) <= set(_TYPES)
        connection.close()
        for user in (*self._users, *self.companions):
            user.start()

    def drain(self) -> None:
        """Let everybody end, route what is left, materialise what waits, and stop the programs."""
        for user in (*self._users, *self.companions):
            user.end()
        self.job.ask_to_end()
        self.check_end(self.job, "job, SIGTERM", 0)
        self.job.kill()
        self.start_job("--available-now")
        self.check_end(self.job, "job, to the end of its source", 0)
        self.service.ask_to_end()
        self.check_end(self.service, "service, SIGTERM", 0, -signal.SIGTERM)
        self.check_end(self._start("materialise"), "materialise, in the end", 0)

    def close(self) -> None:
        """Leave no process behind."""
        for program in self._programs:
            program.kill()
        self._address.set(None)


def tail(program: Program) -> str:
    """The last lines that a program has printed."""
    return "\n".join(f"    {line[:300]}" for line in program.output.splitlines()[-_LINES:])
