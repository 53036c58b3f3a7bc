"""The REST control plane under load: latency of single declarations, throughput of many clients, a big import.

    python -m benchmarks.bench_api

A real server process on loopback, over a topology of 10,000 objects: declarations one after the other,
then by 32 clients at once, for each kind of object; then one import of 100,000 bindings. The last line is
the smallest ratio of concurrent to sequential throughput.
"""

from __future__ import annotations

import argparse
import base64
import http.client
import json
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

CLIENTS = 32
OBJECTS = 10_000
DECLARATIONS = 1_000
IMPORTED = 100_000
USER, PASSWORD = "bench", secrets.token_hex(12)
HEADERS = {"authorization": "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()}

#: Method, path and body of the n-th declaration.
Declaration = Callable[[str, int], tuple[str, str, Any]]
KINDS: dict[str, Declaration] = {
    "exchange": lambda run, n: ("PUT", f"/api/exchanges/%2F/{run}{n}", {"type": "topic", "durable": True}),
    "binding": lambda run, n: ("POST", f"/api/bindings/%2F/e/e{n % 100}/q/q{n % 97}", {"routing_key": f"{run}.{n}"}),
    "queue": lambda run, n: ("PUT", f"/api/queues/%2F/{run}{n}", {"durable": True}),
}


def definitions(exchanges: int, queues: int, bindings: int, *, prefix: str = "") -> dict[str, Any]:
    return {
        "exchanges": [
            {"name": f"{prefix}e{n}", "vhost": "/", "type": "topic", "durable": True} for n in range(exchanges)
        ],
        "queues": [{"name": f"{prefix}q{n}", "vhost": "/", "durable": True} for n in range(queues)],
        "bindings": [
            {
                "source": f"{prefix}e{n % exchanges}",
                "vhost": "/",
                "destination": f"{prefix}q{n % queues}",
                "destination_type": "queue",
                "routing_key": f"k.{n}.#",
                "arguments": {},
            }
            for n in range(bindings)
        ],
    }


@contextmanager
def server() -> Iterator[int]:
    """A server process over an empty data directory; gives its port and says how long it took to answer."""
    environment = os.environ | {"BINDERY_ADMIN_USER": USER, "BINDERY_ADMIN_PASSWORD": PASSWORD}
    with tempfile.TemporaryDirectory(prefix="bench-api-") as folder:
        started = time.perf_counter()
        command = [sys.executable, "-m", "bindery.cli.main", "serve", "--data", f"{folder}/data", "--port", "0"]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        try:
            first_line = process.stdout.readline() if process.stdout is not None else ""
            port = int(first_line.rpartition(":")[2])
            Client(port).call("GET", "/api/whoami", None)
            print(f"ready after {time.perf_counter() - started:.1f} s")
            yield port
        finally:
            process.terminate()
            process.wait(30)


class Client:
    """One connection, kept."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)

    def call(self, method: str, path: str, body: Any) -> bytes:
        content = None if body is None else json.dumps(body)
        self._connection.request(method, path, content, HEADERS)
        response = self._connection.getresponse()
        answer = response.read()
        if response.status >= 300:
            raise RuntimeError(f"{method} {path}: {response.status} {answer[:300]!r}")
        return answer


def sequential(port: int, declare: Declaration, count: int) -> list[float]:
    """Seconds of each of `count` declarations, one after the other."""
    client, taken = Client(port), []
    for number in range(count):
        started = time.perf_counter()
        client.call(*declare("seq", number))
        taken.append(time.perf_counter() - started)
    return taken


def concurrent(port: int, declare: Declaration, count: int) -> float:
    """Seconds that `count` declarations take for all clients at once."""
    failed: list[BaseException] = []

    def work(first: int) -> None:
        try:
            client = Client(port)
            for number in range(first, count, CLIENTS):
                client.call(*declare("con", number))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(first,)) for first in range(CLIENTS)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--declarations", type=int, default=DECLARATIONS)
    parser.add_argument("--objects", type=int, default=OBJECTS)
    parser.add_argument("--imported", type=int, default=IMPORTED)
    arguments = parser.parse_args()
    count = arguments.declarations
    with server() as port:
        client = Client(port)
        client.call("POST", "/api/definitions", definitions(100, 97, arguments.objects - 197))
        together_title = f"{CLIENTS} clients/s"
        print(f"{'declaration':<12}{'median ms':>10}{'p95 ms':>9}{'1 client/s':>12}{together_title:>14}{'ratio':>8}")
        ratios = []
        for kind, declare in KINDS.items():
            taken = sequential(port, declare, count)
            alone = count / sum(taken)
            together = count / concurrent(port, declare, count)
            ratios.append(together / alone)
            median, worst = statistics.median(taken) * 1000, statistics.quantiles(taken, n=20)[-1] * 1000
            print(f"{kind:<12}{median:>10.1f}{worst:>9.1f}{alone:>12.0f}{together:>14.0f}{ratios[-1]:>8.1f}")
        client = Client(port)  # the server has closed the first one, idle for so long
        before = json.loads(client.call("GET", "/api/overview?columns=topology_version", None))["topology_version"]
        document = definitions(100, 100, arguments.imported, prefix="i")
        started = time.perf_counter()
        client.call("POST", "/api/definitions", document)
        elapsed = time.perf_counter() - started
        after = json.loads(client.call("GET", "/api/overview?columns=topology_version", None))["topology_version"]
        print(f"import of {arguments.imported:,} bindings: {elapsed:.1f} s, {after - before} commit")
        print(f"ratio {CLIENTS} clients/1 client: {min(ratios):.1f}")


if __name__ == "__main__":
    main()
