"""A RabbitMQ of one node: in a folder, on loopback ports and with a port mapper of its own."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pika
import pytest

from tests.servers.ports import free_ports

USER: Final = "drainer"
PASSWORD: Final = "p@ss w/ord:1"
#: Debian's program beside the wrapper that changes the user.
_PROGRAM: Final = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
_SECONDS: Final = 300


class RabbitMQ:
    """A node that can be stopped, or killed, and started again with what it had stored; use as a context.

    `tls` are a certificate and its key: then it listens on `tls_port`, too; with `management` its management API
    listens on `management_port`. Skips where there is no rabbitmq-server.
    """

    def __init__(
        self,
        folder: Path,
        *,
        tls: tuple[Path, Path] | None = None,
        management: bool = False,
        plugins: Sequence[str] = (),
    ) -> None:
        program = str(_PROGRAM) if _PROGRAM.exists() else shutil.which("rabbitmq-server")
        epmd = shutil.which("epmd")
        if program is None or epmd is None:
            pytest.skip("no rabbitmq-server (with Erlang's epmd) to drain")
        self.port, self.tls_port, self.management_port, distribution, mapper = free_ports(5)
        self._program = program
        self._processes: list[subprocess.Popen[bytes]] = []
        folder.mkdir(parents=True, exist_ok=True)
        settings = {
            "listeners.tcp.1": f"127.0.0.1:{self.port}",
            "default_user": USER,
            "default_pass": PASSWORD,
            "vm_memory_high_watermark.absolute": "1GB",
            "disk_free_limit.absolute": "1MB",
        }
        if tls is not None:
            certificate, key = tls
            settings |= {
                "listeners.ssl.1": f"127.0.0.1:{self.tls_port}",
                "ssl_options.certfile": str(certificate),
                "ssl_options.keyfile": str(key),
            }
        if management:
            settings |= {"management.tcp.ip": "127.0.0.1", "management.tcp.port": str(self.management_port)}
        (folder / "rabbitmq.conf").write_text("".join(f"{key} = {value}\n" for key, value in settings.items()))
        enabled = ("rabbitmq_management", *plugins) if management else plugins
        (folder / "enabled_plugins").write_text(f"[{','.join(enabled)}].\n")
        self._log = folder / "node.log"
        self._environment: Mapping[str, str] = os.environ | {
            "HOME": str(folder),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(mapper),
            "RABBITMQ_BASE": str(folder),
            "RABBITMQ_CONF_ENV_FILE": str(folder / "none"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq"),
            "RABBITMQ_DIST_PORT": str(distribution),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
            "RABBITMQ_NODENAME": f"bindery-{secrets.token_hex(4)}@localhost",
            "RABBITMQ_PID_FILE": str(folder / "pid"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 +sbwt none",
        }
        self._epmd = [epmd, "-port", str(mapper), "-address", "127.0.0.1"]

    def __enter__(self) -> Self:
        try:
            self._run(self._epmd)
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._processes:
            self._end(self._processes.pop())

    def start(self) -> None:
        """Start the node, and wait until it takes connections."""
        process = self._run([self._program])
        end = time.monotonic() + _SECONDS
        while True:
            with suppress(pika.exceptions.AMQPConnectionError, OSError):
                self.connect().close()
                return
            assert process.poll() is None and time.monotonic() < end, self._log.read_text()[-4000:]
            time.sleep(0.2)

    def stop(self, *, kill: bool = False) -> None:
        """End the node, with or without its farewell."""
        process = self._processes.pop()
        if kill:
            os.killpg(process.pid, signal.SIGKILL)
        self._end(process)

    def connect(self, **parameters: object) -> pika.BlockingConnection:
        """A connection of its user."""
        credentials = pika.PlainCredentials(USER, PASSWORD)
        return pika.BlockingConnection(
            pika.ConnectionParameters("127.0.0.1", self.port, credentials=credentials, **parameters)
        )

    @property
    def url(self) -> str:
        """Where it listens, and as whom, without the password."""
        return f"amqp://{USER}@127.0.0.1:{self.port}/%2F"

    def _run(self, command: list[str]) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                command, env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self._processes.append(process)
        return process

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(60)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
