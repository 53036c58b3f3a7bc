"""Starting a job in a process of its own, by `spark-submit` where it needs Spark, and signalling that process later.

The process is the leader of its own session, so that no signal to the service reaches it, and writes to a
log. It first waits in a shell until the run is on record: whoever starts it may die at any moment and
leaves either a recorded run or none. The shell, Spark's scripts and the JVM replace each other in one
process; the driver (`bindery.jobs.managed`) is a child of the JVM.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from bindery.jobs.control.connect import refuse_connect
from bindery.jobs.control.connectors import DELTA, connectors, jar_settings
from bindery.jobs.control.forward import is_forward
from bindery.jobs.control.logs import LogFormat
from bindery.jobs.control.packages import DELTA_SETTINGS, NO_PAGES
from bindery.jobs.control.references import ENVIRONMENT_PREFIX, references
from bindery.router.errors import InvalidInput, StorageFailed
from bindery.store.jobs import JobFolder, JobRecord, Process, Run
from bindery.store.paths import DataDir, encode_name

_MANAGED: Final = Path(__file__).parents[1] / "managed.py"
#: The folder that `bindery` is imported from.
_ROOT: Final = Path(__file__).parents[3]
_SHELL: Final = ("/bin/sh", "-c", 'read -r go && exec "$@" </dev/null', "bindery-job")
#: Logs are kept as long as a run lasts: at Spark's own level they would grow with every batch.
_DEFAULTS: Final = NO_PAGES | {"spark.log.level": "WARN"}
_LOOPBACK: Final = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


@dataclass(frozen=True, slots=True)
class Launcher:
    """How jobs are started: the Spark master and more of Spark's settings.

    `roots` are what jobs may read (jobs/control/document_rules.py), `secrets` is a folder of files, `log_format` says
    how runs log.
    """

    data: DataDir
    roots: tuple[str, ...] = ()
    master: str = "local[2]"
    conf: Mapping[str, str] = field(default_factory=dict)
    secrets: Path | None = None
    log_format: LogFormat = "text"

    def command(self, folder: JobFolder, record: JobRecord, run: str, *, new_epoch: bool = False) -> list[str]:
        """The command line of a run: spark-submit, or Python alone for a forwarder.

        Raises InvalidInput for Spark Connect.
        """
        managed = [str(_MANAGED), "--job", str(folder.place), "--data", self.data.root, "--run", run]
        for root in self.roots:
            managed += ["--root", root]
        if self.secrets is not None:
            managed += ["--secrets", str(self.secrets)]
        if self.log_format != "text":
            managed += ["--log-format", self.log_format]
        if new_epoch:
            managed.append("--new-epoch")
        return [sys.executable, "-P", *managed] if is_forward(record.document) else [*self._submit(record), *managed]

    def _submit(self, record: JobRecord) -> list[str]:
        refuse_connect(master=self.master, conf=self.conf, environment=os.environ)
        conf = dict(_DEFAULTS)
        if self._is_local:
            conf |= _LOOPBACK
        source = record.document["source"]
        needs = connectors((self.data.root, str(source.get("path", ""))), source["format"])
        if DELTA in needs:
            conf |= DELTA_SETTINGS
        conf |= self.conf
        submit = spark_submit()
        command = [str(submit), "--master", self.master, "--name", f"bindery {encode_name(record.stream)}"]
        given = {"spark.jars", "spark.jars.packages"} & conf.keys()
        missing = [one for one in needs if not one.is_in(submit.parents[1] / "jars")]
        if missing and not given:
            conf |= jar_settings(missing)
        for name, value in conf.items():
            command += ["--conf", f"{name}={value}"]
        return command

    def environment(self, record: JobRecord) -> dict[str, str]:
        """What the process inherits: nothing of the service's own settings, and only its own secrets."""
        own = {ENVIRONMENT_PREFIX + name for name in references(record.document)}
        kept = {
            name: value for name, value in os.environ.items() if name in own or not name.upper().startswith("BINDERY_")
        }
        kept.setdefault("PYSPARK_PYTHON", sys.executable)
        kept.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        path = kept.get("PYTHONPATH")
        kept["PYTHONPATH"] = str(_ROOT) if not path else f"{_ROOT}{os.pathsep}{path}"
        if self._is_local:
            kept.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        return kept

    def launch(
        self, folder: JobFolder, record: JobRecord, *, run: str, number: int, alive: int, new_epoch: bool
    ) -> tuple[Process, Callable[[bool], None]]:
        """Start the process of a run, waiting; gives it and its gate. See store.jobs.Launch."""
        command = [*_SHELL, *self.command(folder, record, run, new_epoch=new_epoch)]
        try:
            log = os.open(folder.log(number), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as error:
            raise StorageFailed(f"cannot write the job's log: {error.strerror}", where=str(folder.here)) from error
        try:
            process = subprocess.Popen(  # noqa: S603  # an argument list, no shell text from outside
                command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=self.environment(record),
                cwd=folder.here,
                pass_fds=(alive,),
                start_new_session=True,
            )
        finally:
            os.close(log)
        threading.Thread(target=_reap, args=(process, folder, run), name=f"job {number}", daemon=True).start()

        def gate(go: bool) -> None:
            assert process.stdin is not None  # noqa: S101  # a pipe was asked for
            # a process that has ended meanwhile is found dead by whoever asks
            with suppress(BrokenPipeError), process.stdin as pipe:
                if go:
                    pipe.write(b"go\n")

        ticks = started_at(process.pid)
        if ticks is None:
            gate(False)
            raise InvalidInput("the job's process ended at once", where="job")
        return Process(process.pid, ticks, this_host()), gate

    @property
    def _is_local(self) -> bool:
        return self.master.partition("[")[0] == "local"


def _reap(process: subprocess.Popen[bytes], folder: JobFolder, run: str) -> None:
    folder.ended(run, process.wait())


def spark_submit() -> Path:
    """Spark's own script, of SPARK_HOME or of the installed package; raises InvalidInput without one."""
    home = os.environ.get("SPARK_HOME")
    if home is None:
        found = importlib.util.find_spec("pyspark")
        home = None if found is None or found.origin is None else str(Path(found.origin).parent)
    script = Path(home or "/", "bin", "spark-submit")
    if not script.is_file():
        raise InvalidInput("there is no spark-submit", where=str(script), hint="install pyspark, or set SPARK_HOME")
    return script


# -- processes -----------------------------------------------------------------------------------------


@cache
def this_host() -> str:
    """Where process numbers mean what they mean here: this boot of this machine, or of this container."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    return f"{boot}:{Path('/proc/self/ns/pid').stat().st_ino}"


def started_at(pid: int) -> int | None:
    """When a process started, in clock ticks since the machine's start; None when there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] == "Z" else int(fields[19])


def this_process() -> Process:
    """The calling process."""
    return Process(os.getpid(), started_at(os.getpid()) or 0, this_host())


def is_here(process: Process) -> bool:
    """Whether that very process lives, on this machine."""
    return process.host == this_host() and started_at(process.pid) == process.ticks


def ask_to_end(run: Run, driver: Process | None) -> bool:
    """SIGTERM: to the driver, which ends after the batch that is running, or to a run that has none yet.

    False when the process is not to be found on this machine.
    """
    if driver is not None:
        return _signal(driver, signal.SIGTERM, group=False)
    return _signal(run.process, signal.SIGTERM, group=True)


def kill(run: Run) -> bool:
    """SIGKILL to everything of a run; False when it is not to be found on this machine."""
    return _signal(run.process, signal.SIGKILL, group=True)


def _signal(process: Process, number: signal.Signals, *, group: bool) -> bool:
    if not is_here(process):
        return False
    try:
        (os.killpg if group else os.kill)(process.pid, number)
    except ProcessLookupError:
        return False
    return True
