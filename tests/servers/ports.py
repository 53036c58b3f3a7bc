"""Ports of loopback for servers that cannot choose one themselves."""

from __future__ import annotations

import socket
import subprocess
import time
from pathlib import Path

_STARTS_WITHIN = 60.0  # seconds


def free_ports(number: int) -> list[int]:
    """So many different ports that nobody listens on."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [int(one.getsockname()[1]) for one in held]
    for one in held:
        one.close()
    return ports


def free_port() -> int:
    """A port that nobody listens on."""
    return free_ports(1)[0]


def wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a server that was started accepts connections; raises RuntimeError with its last words."""
    until = time.monotonic() + _STARTS_WITHIN
    while time.monotonic() < until and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.01)
        else:
            return
    raise RuntimeError(f"{process.args} did not start: {log.read_text(errors='replace')[-2000:]}")
