"""Records what a live RabbitMQ does, as cases of `bindery conformance` that run under its mode.

    python -m tests.recording --messages 100000 recorded.jsonl
    bindery conformance recorded.jsonl

By default a node of its own is started, Debian's; with `--amqp` another broker is asked, in an empty vhost of its own.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pika

from tests.recording.wire import Headers, fields_of_every_type
from tests.recording.worlds import Sent, World, Worlds
from tests.servers.rabbitmq import RabbitMQ


@contextmanager
def recorded_broker(amqp: str | None, folder: Path) -> Iterator[pika.BlockingConnection]:
    """A connection to a broker: that of the URL, or a node started for it."""
    if amqp is not None:
        connection = pika.BlockingConnection(pika.URLParameters(amqp))
        yield connection
        connection.close()
        return
    with RabbitMQ(folder) as node:
        connection = node.connect(heartbeat=0)
        yield connection
        connection.close()


def declare(channel: Any, world: World) -> None:
    """Declare a topology."""
    for name, (kind, alternate) in world.exchanges.items():
        arguments = {} if alternate is None else {"alternate-exchange": alternate}
        channel.exchange_declare(name, kind, arguments=arguments)
    for name in world.queues:
        channel.queue_declare(name)
    for bound in world.bindings:
        bind = channel.queue_bind if bound.to_queue else channel.exchange_bind
        bind(bound.destination, bound.source, bound.key, arguments=dict(bound.arguments))


def remove(channel: Any, world: World) -> None:
    """Delete a topology; its bindings go with it."""
    for name in world.queues:
        channel.queue_delete(name)
    for name in world.exchanges:
        channel.exchange_delete(name)


def publish(channel: Any, messages: list[Sent]) -> list[list[str]]:
    """The queues that get each message, sorted.

    A transaction ends when all of its messages are in their queues: nothing is on its way afterwards.
    """
    for number, sent in enumerate(messages):
        fields = sent.fields
        properties = Headers(fields) if fields else pika.BasicProperties()
        channel.basic_publish(sent.exchange, sent.key, str(number).encode(), properties)
    channel.tx_commit()
    return [sorted(found) for found in _taken(channel, len(messages))]


def _taken(channel: Any, published: int) -> list[list[str]]:
    reached: list[list[str]] = [[] for _ in range(published)]
    for number in range(10):
        queue = f"q{number}"
        waiting = channel.queue_declare(queue, passive=True).method.message_count
        if not waiting:
            continue
        for delivered, (_, _, body) in enumerate(channel.consume(queue, auto_ack=True), start=1):
            reached[int(body)].append(queue)
            if delivered == waiting:
                break
        channel.cancel()
    channel.tx_commit()
    assert all(len(set(queues)) == len(queues) for queues in reached), "one copy a queue"
    return reached


def record(
    connection: Any, worlds: Worlds, messages: int, counted: Counter[str], *, together: int
) -> Iterator[dict[str, Any]]:
    """Cases, one a topology, with so many messages in all and `together` in each."""
    channel = connection.channel()
    channel.tx_select()
    number, done = 0, 0
    with fields_of_every_type():
        while done < messages:
            number += 1
            world = worlds.world()
            sent: list[Sent] = []
            while len(sent) < min(together, messages - done):
                made = worlds.message(world)
                kept = worlds.is_kept(world, made)
                counted["kept" if kept else "left_out"] += 1
                if kept:
                    sent.append(made)
            declare(channel, world)
            reached = publish(channel, sent)
            remove(channel, world)
            done += len(sent)
            yield {
                "id": f"{number:04}",
                "kind": "route",
                "topology": world.as_json(),
                "messages": [one.as_json() | {"expect": queues} for one, queues in zip(sent, reached, strict=True)],
            }


def main() -> None:
    """Record, and say how much."""
    parser = argparse.ArgumentParser(prog="python -m tests.recording", description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, help="where the cases go, JSON Lines")
    parser.add_argument("--messages", type=int, default=1_000)
    parser.add_argument("--together", type=int, default=500, help="messages of one topology")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mode", default="rabbitmq-3", help="the compatibility mode of the broker")
    parser.add_argument("--amqp", help="the URL of a broker and an empty vhost, in place of a node of its own")
    options = parser.parse_args()
    counted: Counter[str] = Counter(left_out=0)
    reached: Counter[str] = Counter(copies=0, nowhere=0)
    with (
        tempfile.TemporaryDirectory(prefix="recording-") as folder,
        recorded_broker(options.amqp, Path(folder)) as connection,
        options.file.open("w", encoding="utf-8") as file,
    ):
        version = connection._impl.server_properties["version"]  # pika has no public name for it
        broker = version.decode() if isinstance(version, bytes) else version
        cases = record(
            connection, Worlds(options.seed, options.mode), options.messages, counted, together=options.together
        )
        for case in cases:
            named = {
                "id": f"recorded-{options.mode}-{case['id']}",
                "kind": case["kind"],
                "compat": options.mode,
                "source": f"recorded from RabbitMQ {broker}",
            }
            whole = named | {key: case[key] for key in ("topology", "messages")}
            file.write(json.dumps(whole, ensure_ascii=False) + "\n")
            reached["copies"] += sum(len(one["expect"]) for one in case["messages"])
            reached["nowhere"] += sum(not one["expect"] for one in case["messages"])
    said = {name: f"{number:,}" for name, number in {**counted, **reached}.items()}
    sys.stderr.write(
        "RabbitMQ {broker}: {kept} messages, {copies} copies, {nowhere} messages in no queue; {left_out} were not "
        "sent, as a record does not keep what decides about them\n".format(broker=broker, **said)
    )


if __name__ == "__main__":
    main()
