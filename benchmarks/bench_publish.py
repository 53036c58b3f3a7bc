"""Messages published over REST, a hundred a second: how long until each is in its queue's table (`make bench-publish`).

A real server process on loopback, ten queues behind a direct exchange, `--rate` messages a second for `--seconds`, each
at its own time whether those before have been answered or not (an open loop), over kept connections. An answer comes
when the message is durably in the table of its queue, so that the time to the answer is the time to the table. Before
that the same messages one after the other, by one client. In the end the rows of the queues are counted.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, Final

import numpy as np

from benchmarks import results
from benchmarks.bench_api import Client, sequential, server

QUEUES: Final = 10
#: Connections; a message that finds none free waits, and the wait counts.
CLIENTS: Final = 64


def publication(_run: str, number: int) -> tuple[str, str, Any]:
    """The n-th message: to one of the queues."""
    message = {"routing_key": f"k{number % QUEUES}", "payload": "x" * 100, "payload_encoding": "string"}
    return "POST", "/api/exchanges/%2F/bench/publish", message | {"properties": {}}


def definitions() -> dict[str, Any]:
    """The exchange, its queues and their bindings."""
    durable = {"vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
    queues = [f"queue{number}" for number in range(QUEUES)]
    return {
        "exchanges": [{"name": "bench", "type": "direct", "internal": False, **durable}],
        "queues": [{"name": name, **durable} for name in queues],
        "bindings": [
            {
                "vhost": "/",
                "source": "bench",
                "destination": name,
                "destination_type": "queue",
                "routing_key": f"k{number}",
                "arguments": {},
            }
            for number, name in enumerate(queues)
        ],
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="How long until a published message is in its table.")
    parser.add_argument("--rate", type=float, default=100, help="messages a second")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--warm", type=float, default=5, help="seconds that are left out at the start")
    options = parser.parse_args(arguments)
    with server() as service:
        Client(service).call("POST", "/api/definitions", definitions())
        alone = sequential(service, publication, 50)
        clients: SimpleQueue[Client] = SimpleQueue()
        for _ in range(CLIENTS):
            clients.put(Client(service))
        begun = time.perf_counter() + 0.1

        def publish(number: int) -> float:
            due: float = begun + number / options.rate
            time.sleep(max(0.0, due - time.perf_counter()))
            client = clients.get()
            try:
                client.call(*publication("", number))
            finally:
                clients.put(client)
            return time.perf_counter() - due

        count = int(options.rate * options.seconds)
        with ThreadPoolExecutor(CLIENTS) as pool:
            taken = list(pool.map(publish, range(count)))
        lasted = time.perf_counter() - begun
        kept = taken[int(options.rate * options.warm) :]
        listed = json.loads(Client(service).call("GET", "/api/queues/%2F", None))
        rows = sum(queue["messages"] for queue in listed)
    print(f"one client, one after the other: median {statistics.median(alone) * 1000:.0f} ms")
    print(
        f"{options.rate:g} messages a second for {options.seconds:g} s: "
        f"median {statistics.median(kept) * 1000:.0f} ms, "
        f"p99 {float(np.quantile(kept, 0.99)) * 1000:.0f} ms, most {max(kept) * 1000:.0f} ms"
    )
    print(
        f"{count / lasted:.1f} messages a second were answered; rows of the queues {rows:,} of {count + len(alone):,}"
    )
    middle, beside = statistics.median(kept), statistics.median(alone)
    print(f"ratio open loop/one client: {middle / beside:.2f}")
    answer = results.Answer(
        "Publishing over REST",
        f"{options.rate:g} messages a second",
        "ms",
        {"until in its table": 1000 * middle, "one after the other": 1000 * beside},
        middle / beside,
        (min(kept) / beside, max(kept) / beside),
        {
            "workload": f"an open loop for {options.seconds:g} s into {QUEUES} queues; one client, one message after "
            "the other",
            "p99": f"{float(np.quantile(kept, 0.99)) * 1000:.0f} ms",
            "ratio": "how many times as long as for one client alone; the spread is that of messages",
            "messages": f"{rows:,} of {count + len(alone):,} are in the tables",
        },
        f"python -m benchmarks.bench_publish --rate {options.rate:g} --seconds {options.seconds:g}",
    )
    results.record("publish-open-loop", answer)


if __name__ == "__main__":
    main()
