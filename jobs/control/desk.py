"""Where jobs are submitted, shown, stopped and started again: one set of rules for the service and the command line.

jobs/control/document_rules.py and forward.py say what a document may ask for, store/jobs.py what is on record.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from bindery.jobs.control.bridge import check_bridge
from bindery.jobs.control.config import JobFile
from bindery.jobs.control.document_rules import DocumentRules
from bindery.jobs.control.forward import forward_errors, is_forward, submitted
from bindery.jobs.control.launch import Launcher, ask_to_end, kill, spark_submit
from bindery.jobs.control.logs import without_passwords
from bindery.jobs.control.references import check_present, masked, present_values
from bindery.router.errors import InvalidInput, NotFound, Refused
from bindery.router.model import Topology
from bindery.store.forwarding import recorded_of
from bindery.store.jobs import Found, JobConflict, JobRecord, JobRegistry
from bindery.store.totals import Totals

#: Lines of a log that are given at once, and bytes of it that are looked at.
LOG_LINES: Final = 10_000
_LOG_BYTES: Final = 4 * 2**20
#: Lines of the log, and bytes that are looked at, in the error of a job whose process ended before it began.
_TAIL_LINES: Final = 20
_TAIL_BYTES: Final = 16_384
#: Seconds between two looks at a job that is to end.
_POLL: Final = 0.1
#: Characters of a line of a secret that is looked for by itself.
_SHORTEST_PART: Final = 8


@dataclass(frozen=True, slots=True)
class LogPart:
    """Lines of what a run printed, without secrets; `end` is the byte of the log behind them."""

    run: int
    lines: list[str]
    end: int
    runs: list[int]


@dataclass(frozen=True, slots=True)
class Desk:
    """The jobs of one data directory, started by `launcher`; usable from any thread.

    `topology` and `totals` give the newest topology and what all batches together did; `stop_wait` are the seconds
    that a restart waits for the end of the job.
    """

    jobs: JobRegistry
    launcher: Launcher
    topology: Callable[[], Topology]
    totals: Callable[[], Totals]
    stop_wait: float = 30.0

    def check(self, document: Mapping[str, Any]) -> str:
        """The stream of a document that could run here; raises InvalidInput naming the key."""
        for error in self.errors(document):
            raise error
        stream: str = document["stream"]
        return stream

    def errors(self, document: Mapping[str, Any]) -> Iterator[InvalidInput]:
        """What keeps a document from running here, each with its key; nothing when it could."""
        topology, rules = self.topology(), self.launcher
        if is_forward(document):
            errors = forward_errors(document)
            yield from errors
            if not errors:
                yield from self._refusals(document, lambda: self._check_forward(document, topology))
            return
        file, errors = DocumentRules(rules.data, rules.roots).examine(document)
        yield from errors
        if file is not None:
            yield from self._refusals(document, lambda: _check_job(file, topology))

    def _refusals(self, document: Mapping[str, Any], check: Callable[[], None]) -> Iterator[InvalidInput]:
        """What is refused because of what there is here, a secret or an object of the topology, that is missing."""
        try:
            check_present(document, folder=self.launcher.secrets)
        except InvalidInput as error:
            yield error
        try:
            check()
        except NotFound as error:
            yield InvalidInput(f"{error.where or 'document'}: {error.message}")
        except InvalidInput as error:
            yield error
        except Refused as error:
            yield InvalidInput(error.message, hint=error.hint)

    def _check_forward(self, document: Mapping[str, Any], topology: Topology) -> None:
        wanted = submitted(document, self.launcher.roots)
        topology.queue(wanted.vhost, wanted.forward.queue)
        if importlib.util.find_spec("confluent_kafka") is None:
            raise InvalidInput("forward.to: the package confluent-kafka is not installed here")

    def submit(self, document: Mapping[str, Any], author: str, *, new_epoch: bool = False) -> str:
        """Start the job of a document, in place of one of that stream that does not run; gives the stream.

        Raises InvalidInput naming the key, JobConflict while a job of that stream runs, and what
        JobRegistry.start raises.
        """
        stream = self.check(document)
        record = JobRecord(stream, document, author, time.time())
        self.jobs.start(stream, self.launcher.launch, submit=lambda: record, new_epoch=new_epoch)
        return stream

    def restart(self, stream: str, *, new_epoch: bool = False) -> None:
        """Start a job again, after its end if it runs; raises NotFound, InvalidInput, and JobConflict."""
        found = self.jobs.get(stream)
        self.check(found.record.document)
        if found.alive:
            self.stop(stream)
            end = time.monotonic() + self.stop_wait
            while self.jobs.get(stream).alive:
                if time.monotonic() > end:
                    raise JobConflict(
                        f"the job of stream {stream!r} has not ended yet: try again, or stop it by force", where="job"
                    )
                time.sleep(_POLL)
        self.jobs.start(stream, self.launcher.launch, new_epoch=new_epoch)

    def stop(self, stream: str, *, force: bool = False) -> bool:
        """Ask a job to end after the batch that is running, or kill it.

        False when its process is not on this machine: there it finds the request on record. Raises NotFound, and
        JobConflict when none lives, or for one that is to be killed and is not here.
        """
        found = self.jobs.request_stop(stream)
        run = found.record.run
        assert run is not None  # noqa: S101  # a job that lives has a run
        if not force:
            return ask_to_end(run, None if found.status is None else found.status.driver)
        if not kill(run) and self.jobs.get(stream).alive:
            raise JobConflict("the job runs on another machine: kill its process there", where="job")
        return True

    def log(
        self, found: Found, number: int | None = None, *, lines: int = 100, after: int | None = None
    ) -> LogPart | None:
        """The last lines of what a run printed, or the first behind a byte `after`; of the newest run unless told.

        A line that a living run has not ended yet is left out. None where there is no log, or none on this machine.
        """
        record = found.record
        newest = None if record.run is None else record.run.number
        run = newest if number is None else number
        if run is None:
            return None
        part = self._log(record, run, lines=lines, limit=_LOG_BYTES, after=after, whole=found.alive and run == newest)
        return None if part is None else LogPart(run, *part, self.jobs.folder(record.stream).logs())

    def item(self, found: Found, totals: Totals) -> dict[str, Any]:
        """A job as JSON data: its state, progress, last error and document (docs/operations.md)."""
        record, run, said = found.record, found.record.run, found.status
        stream = record.stream
        progress = dict(said.progress or {}) if said is not None else {}
        waiting = progress.pop("waiting", None)
        item: dict[str, Any] = {
            "stream": stream,
            "vhost": record.document.get("vhost", "/"),
            "state": found.state,
            "document": record.document,
            "submitted_by": record.author,
            "submitted_at": _ms(record.submitted_at),
            "lag": progress.pop("lag", None),
            "waiting": {**waiting, "since": _ms(waiting["since"])} if waiting and found.alive else None,
            "rows_per_second": progress.pop("rows_per_second", None),
            "last_batch": progress.pop("last_batch", None),
            "progress": self._forwarded(stream)
            if is_forward(record.document)
            else {
                "batches": totals.batches[stream],
                "records": totals.records[stream],
                "copies": totals.copies[stream],
                "unroutable": {
                    reason: number for (name, reason), number in totals.unroutable.items() if name == stream
                },
                "stages": {
                    stage: {"seconds": seconds, "batches": batches}
                    for (name, stage), (seconds, batches) in totals.stages.items()
                    if name == stream
                },
                "unparsable": totals.unparsable_of(stream),
            },
            "error": None,
        }
        if run is not None:
            item["run"] = {
                "number": run.number,
                "pid": run.process.pid,
                "started_at": _ms(run.started_at),
                "stop_requested_at": _ms(run.stop_requested_at),
                "reported_at": None if said is None else _ms(said.updated_at),
                "log": str(self.jobs.folder(stream).log(run.number)),
                **progress,
            }
        if found.error is not None:
            item["error"] = dict(found.error)
            if run is not None and item["error"]["code"] == "not_started":
                part = self._log(record, run.number, lines=_TAIL_LINES, limit=_TAIL_BYTES)
                item["error"]["log"] = [] if part is None else part[0]
        return item

    def _forwarded(self, stream: str) -> dict[str, Any]:
        """The progress of a forwarder: it commits no batches, and its position says how far it is."""
        found = recorded_of(self.launcher.data, stream)
        return {
            "batches": 0,
            "records": 0 if found is None else found.rows,
            "copies": 0,
            "unroutable": {},
            "stages": {},
            "unparsable": [],
            "position": None if found is None else {**asdict(found.position), "moved_at": found.moved_ms},
        }

    def _log(
        self,
        record: JobRecord,
        number: int,
        *,
        lines: int,
        limit: int,
        after: int | None = None,
        whole: bool = False,
    ) -> tuple[list[str], int] | None:
        """Lines of a log without secrets, and the byte behind them."""
        part = self.jobs.folder(record.stream).log_part(number, limit=limit, after=after)
        if part is None:
            return None
        content, start = part
        if whole or (after is not None and len(content) == limit):
            content = content[: content.rfind(b"\n") + 1 or (0 if len(content) < limit else limit)]
        end = start + len(content)
        if after is not None:
            content = b"".join(content.splitlines(keepends=True)[:lines])
            end = start + len(content)
        secrets = present_values(record.document, folder=self.launcher.secrets)
        # a secret may have several lines, and some of them alone may stand in the log
        parts = [line for secret in secrets for line in secret.splitlines() if len(line) >= _SHORTEST_PART]
        text = without_passwords(masked(content.decode("utf-8", "replace"), [*secrets, *parts]))
        shown = text.splitlines()
        return shown if after is not None else shown[-lines:], end


def _check_job(file: JobFile, topology: Topology) -> None:
    topology.vhost(file.job.vhost)
    check_bridge(file, topology)
    spark_submit()


def _ms(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds * 1000)
