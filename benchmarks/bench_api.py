"""The REST control plane under load, beside a RabbitMQ where there is one: latency and throughput; a big import.

    python -m benchmarks.bench_api

A real server process on loopback, over a topology of 10,000 objects: for each kind of call, calls one after
the other, then by 32 clients at once. The broker gets the same topology and, in turns, the same calls: it is
the one of `--broker` or BINDERY_BENCH_BROKER, else one that is started here if `rabbitmq-server` is
installed. Then one import of 100,000 bindings. The last lines are the smallest ratios: to the broker, and of
concurrent to sequential throughput.
"""

from __future__ import annotations

import argparse
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
from dataclasses import dataclass
from typing import Any

from benchmarks.broker import URL_VARIABLE, Service, yardstick

CLIENTS = 32
OBJECTS = 10_000
CALLS = 1_000
IMPORTED = 100_000
EXCHANGES, QUEUES = 100, 97
VHOST = "bindery-bench"
AT = f"/api/%s/{VHOST}"

#: Method, path and body of the n-th call.
Call = Callable[[str, int], tuple[str, str, Any]]


def publication(_run: str, n: int) -> tuple[str, str, Any]:
    """A message that one binding takes, the n-th of the topology: its key begins with k.n."""
    message = {"routing_key": f"k.{n}.x", "payload": "x" * 100, "payload_encoding": "string"}
    return "POST", f"{AT % 'exchanges'}/e{n % EXCHANGES}/publish", message | {"properties": {}}


CALLS_OF: dict[str, Call] = {
    "exchange": lambda run, n: ("PUT", f"{AT % 'exchanges'}/{run}{n}", {"type": "topic", "durable": True}),
    "binding": lambda run, n: (
        "POST",
        f"{AT % 'bindings'}/e/e{n % EXCHANGES}/q/q{n % QUEUES}",
        {"routing_key": f"{run}.{n}"},
    ),
    "queue": lambda run, n: ("PUT", f"{AT % 'queues'}/{run}{n}", {"durable": True}),
    "publish": publication,
    "list page": lambda _run, n: ("GET", f"{AT % 'queues'}?page={n % 2 + 1}&page_size=100", None),
}


def definitions(exchanges: int, queues: int, bindings: int, *, prefix: str = "") -> dict[str, Any]:
    """A document for one vhost."""
    durable = {"durable": True, "auto_delete": False, "arguments": {}}
    return {
        "exchanges": [
            {"name": f"{prefix}e{n}", "type": "topic", "internal": False, **durable} for n in range(exchanges)
        ],
        "queues": [{"name": f"{prefix}q{n}", **durable} for n in range(queues)],
        "bindings": [
            {
                "source": f"{prefix}e{n % exchanges}",
                "destination": f"{prefix}q{n % queues}",
                "destination_type": "queue",
                "routing_key": f"k.{n}.#",
                "arguments": {},
            }
            for n in range(bindings)
        ],
    }


@contextmanager
def server() -> Iterator[Service]:
    """A server process over an empty data directory; says how long it took to answer."""
    user, password = "bench", secrets.token_hex(12)
    environment = os.environ | {"BINDERY_ADMIN_USER": user, "BINDERY_ADMIN_PASSWORD": password}
    with tempfile.TemporaryDirectory(prefix="bench-api-") as folder:
        started = time.perf_counter()
        command = [sys.executable, "-m", "bindery.cli.main", "serve", "--data", f"{folder}/data", "--port", "0"]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        try:
            first_line = process.stdout.readline() if process.stdout is not None else ""
            service = Service("Bindery", "127.0.0.1", int(first_line.rpartition(":")[2]), user, password)
            Client(service).call("GET", "/api/whoami", None)
            print(f"Bindery ready after {time.perf_counter() - started:.1f} s")
            yield service
        finally:
            process.terminate()
            process.wait(30)


class Client:
    """One connection, kept."""

    def __init__(self, service: Service) -> None:
        self._connection = http.client.HTTPConnection(service.host, service.port, timeout=600)
        self._headers = service.headers

    def call(self, method: str, path: str, body: Any) -> bytes:
        content = None if body is None else json.dumps(body)
        self._connection.request(method, path, content, self._headers)
        response = self._connection.getresponse()
        answer = response.read()
        if response.status >= 300:
            raise RuntimeError(f"{method} {path}: {response.status} {answer[:300]!r}")
        return answer


def sequential(service: Service, call: Call, count: int) -> list[float]:
    """Seconds of each of `count` calls, one after the other."""
    client, taken = Client(service), []
    for number in range(count):
        started = time.perf_counter()
        client.call(*call("seq", number))
        taken.append(time.perf_counter() - started)
    return taken


def concurrent(service: Service, call: Call, count: int) -> float:
    """Seconds that `count` calls take for all clients at once."""
    failed: list[BaseException] = []

    def work(first: int) -> None:
        try:
            client = Client(service)
            for number in range(first, count, CLIENTS):
                client.call(*call("con", number))
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


@dataclass(frozen=True)
class Rates:
    """What was measured of one kind of call at one service: milliseconds of a call alone, and calls a second."""

    median: float
    worst: float
    alone: float
    together: float


def measured(services: list[Service], call: Call, count: int) -> list[Rates]:
    """The rates of one kind of call at each service, in turns."""
    taken = [sequential(service, call, count) for service in services]
    together = [count / concurrent(service, call, count) for service in services]
    return [
        Rates(statistics.median(one) * 1000, statistics.quantiles(one, n=20)[-1] * 1000, count / sum(one), rate)
        for one, rate in zip(taken, together, strict=True)
    ]


def compare(services: list[Service], count: int) -> None:
    """Print the table of rates and the smallest ratios."""
    title = f"{CLIENTS} clients/s"
    print(f"{'call':<12}{'at':<18}{'median ms':>10}{'p95 ms':>9}{'1 client/s':>12}{title:>14}{'ratio':>8}")
    scaling: list[float] = []
    beside: list[float] = []
    for kind, call in CALLS_OF.items():
        rates = measured(services, call, count)
        for service, one in zip(services, rates, strict=True):
            ratio = one.together / one.alone
            figures = f"{one.median:>10.1f}{one.worst:>9.1f}{one.alone:>12.0f}{one.together:>14.0f}{ratio:>8.1f}"
            print(f"{kind:<12}{service.name:<18}{figures}")
        scaling.append(rates[0].together / rates[0].alone)
        if len(rates) > 1:
            ours, theirs = rates
            ratios = ours.alone / theirs.alone, ours.together / theirs.together
            print(f"{kind:<12}{'Bindery/RabbitMQ':<18}{'':>19}{ratios[0]:>12.2f}{ratios[1]:>14.2f}")
            beside += ratios
    if beside:
        print(f"ratio Bindery/RabbitMQ: {min(beside):.2f}")
    print(f"ratio {CLIENTS} clients/1 client: {min(scaling[:3]):.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--calls", type=int, default=CALLS)
    parser.add_argument("--objects", type=int, default=OBJECTS)
    parser.add_argument("--imported", type=int, default=IMPORTED)
    parser.add_argument(
        "--broker", default=os.environ.get(URL_VARIABLE), help=f"management URL of a RabbitMQ; or {URL_VARIABLE}"
    )
    arguments = parser.parse_args()
    with server() as bindery, yardstick(arguments.broker) as broker:
        services = [bindery] if broker is None else [bindery, broker]
        try:
            for service in services:
                client = Client(service)
                client.call("PUT", f"/api/vhosts/{VHOST}", {})
                document = definitions(EXCHANGES, QUEUES, arguments.objects - EXCHANGES - QUEUES)
                client.call("POST", AT % "definitions", document)
            compare(services, arguments.calls)
        finally:
            if broker is not None:
                Client(broker).call("DELETE", f"/api/vhosts/{VHOST}", None)
        client = Client(bindery)  # the server has closed the first one, idle for so long
        before = json.loads(client.call("GET", "/api/overview?columns=topology_version", None))["topology_version"]
        document = definitions(100, 100, arguments.imported, prefix="i")
        started = time.perf_counter()
        client.call("POST", AT % "definitions", document)
        elapsed = time.perf_counter() - started
        after = json.loads(client.call("GET", "/api/overview?columns=topology_version", None))["topology_version"]
        print(f"import of {arguments.imported:,} bindings: {elapsed:.1f} s, {after - before} commit")


if __name__ == "__main__":
    main()
