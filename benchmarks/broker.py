"""A RabbitMQ as the yardstick: one that runs somewhere, or a node of our own where the program is installed."""

from __future__ import annotations

import base64
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from benchmarks.scratch import scratch
from tests.servers.ports import free_ports

#: The management URL of a broker that runs, with user and password: http://guest:guest@localhost:15672
URL_VARIABLE = "BINDERY_BENCH_BROKER"
#: Debian's program beside the wrapper that changes the user.
_PROGRAM = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
_STARTED_WITHIN = 180.0


@dataclass(frozen=True)
class Service:
    """Where a management API answers; `amqp` is the port of its messages and `process` its id, of a node
    of our own."""

    name: str
    host: str
    port: int
    user: str
    password: str
    amqp: int | None = None
    process: int | None = None

    @property
    def headers(self) -> dict[str, str]:
        credentials = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        return {"authorization": f"Basic {credentials}", "content-type": "application/json"}


@contextmanager
def yardstick(url: str | None) -> Iterator[Service | None]:
    """The broker at that URL, else one of our own; None, and a line that says so, where there is neither."""
    if url is not None:
        at = urlsplit(url)
        if at.scheme != "http" or at.hostname is None:
            raise SystemExit(f"{url!r} is no management URL such as http://guest:guest@localhost:15672")
        user, password = unquote(at.username or "guest"), unquote(at.password or "guest")
        yield Service("RabbitMQ", at.hostname, at.port or 15672, user, password)
    elif not is_here():
        print(f"no broker beside: neither rabbitmq-server nor {URL_VARIABLE} is there")
        yield None
    else:
        with scratch() as folder, node(folder) as service:
            yield service


def is_here() -> bool:
    """Whether a node of our own can be started."""
    return _program() is not None and shutil.which("epmd") is not None


def _program() -> str | None:
    return str(_PROGRAM) if _PROGRAM.exists() else shutil.which("rabbitmq-server")


@contextmanager
def node(folder: Path) -> Iterator[Service]:
    """A node on loopback ports and in a folder of its own, with a port mapper of its own."""
    program, epmd = _program(), shutil.which("epmd")
    if program is None or epmd is None:
        raise SystemExit("rabbitmq-server is not installed")
    management, amqp, distribution, mapper = free_ports(4)
    service = Service("RabbitMQ", "127.0.0.1", management, "bench", secrets.token_hex(12), amqp)
    settings = {
        "listeners.tcp.1": f"127.0.0.1:{amqp}",
        "management.tcp.ip": "127.0.0.1",
        "management.tcp.port": management,
        "default_user": service.user,
        "default_pass": service.password,
    }
    (folder / "rabbitmq.conf").write_text("".join(f"{key} = {value}\n" for key, value in settings.items()))
    (folder / "enabled_plugins").write_text("[rabbitmq_management].\n")
    environment = os.environ | {
        "HOME": str(folder),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "ERL_EPMD_PORT": str(mapper),
        "RABBITMQ_BASE": str(folder),
        "RABBITMQ_CONF_ENV_FILE": str(folder / "none"),
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq"),
        "RABBITMQ_DIST_PORT": str(distribution),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_NODENAME": f"bench-{secrets.token_hex(4)}@localhost",
        "RABBITMQ_PID_FILE": str(folder / "pid"),
    }
    with _child([epmd, "-port", str(mapper), "-address", "127.0.0.1"], environment):
        started = time.perf_counter()
        with _child([program], environment) as process:
            while not (_answers(management) and _answers(amqp)):
                if process.poll() is not None or time.perf_counter() - started > _STARTED_WITHIN:
                    raise SystemExit(f"{program} did not start within {_STARTED_WITHIN:.0f} s")
                time.sleep(0.2)
            print(f"RabbitMQ ready after {time.perf_counter() - started:.1f} s")
            yield replace(service, process=process.pid)


@contextmanager
def _child(command: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends with the block, with those that it has started."""
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield process
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(30)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False
