"""Bridges (Artemis): jobs whose source is a queue, what they read of it, and that they must not feed it.

The check errs on the safe side: it follows every binding, divert and alternate (those of policies too) from
the exchange that the bridge feeds, whatever the keys and filters on the way. So the exchange must be
stated as a literal.
"""

from __future__ import annotations

import re

from bindery.jobs.control.config import Job, JobFile, QueueSource
from bindery.router.errors import InvalidInput, Refused
from bindery.router.filters import Filter
from bindery.router.links import Links
from bindery.router.model import Topology
from bindery.store.consumer_filters import queue_filter
from bindery.store.paths import DataDir

_LITERAL = re.compile(r"\s*'((?:[^'\\]|'')*)'\s*")


def bridge_filter(data: DataDir, source: QueueSource, file: JobFile) -> Filter | None:
    """The filter of a bridge; its own connection is what no-local compares with (Apache AMQP filters §2.1).

    Bodies are what the queue declares, or else what the job file states. Raises FilterError or InvalidInput naming the
    place in the job file.
    """
    try:
        return queue_filter(
            data,
            source.queue,
            source.filter,
            vhost=source.vhost or file.job.vhost,
            dialect=source.dialect,
            connection=source.connection,
            payload=source.payload,
        )
    except InvalidInput as error:
        key = "payload" if error.where == "payload" else "filter"
        error.where = f"{file.place(('source', key))}: source.{key}"
        raise


def check_bridge(file: JobFile, topology: Topology) -> None:
    """Raise when a bridge could feed the queue that it reads; other jobs pass.

    InvalidInput without a literal exchange, NotFound without the queue, Refused for a loop.
    """
    job, source = file.job, file.job.source
    if not isinstance(source, QueueSource):
        return
    vhost = source.vhost or job.vhost
    topology.queue(vhost, source.queue)
    exchange = literal(job, "exchange")
    if exchange is None:
        raise file.error(
            ("message", "exchange"),
            "a bridge states the exchange that it feeds as a literal",
            hint="such as exchange: \"'archive'\"",
        )
    topology.exchange(job.vhost, exchange)
    if vhost == job.vhost and source.queue in _reachable(topology, job, exchange):
        raise Refused(
            f"the bridge reads queue {source.queue!r} and exchange {exchange!r} leads to it: messages would go round",
            where=file.place(("message", "exchange")),
            hint="feed an exchange from which no binding, divert or alternate leads to that queue",
        )


def literal(job: Job, column: str) -> str | None:
    """What a job's expression for a column says, where it is a literal."""
    content = job.message.get(column)
    found = _LITERAL.fullmatch(content) if isinstance(content, str) else None
    return None if found is None else found[1].replace("''", "'")


def _reachable(topology: Topology, job: Job, exchange: str) -> set[str]:
    """Every queue to which something may lead from the exchange."""
    links = Links(topology, job.vhost)
    if exchange == "":
        key = literal(job, "routing_key")
        return set(links.queues) if key is None or {"cc", "bcc"} & job.message.keys() else {key}
    queues: set[str] = set()
    seen = {exchange}
    pending = [exchange]
    while pending:
        for link in links.leaving(pending.pop()):
            if link.destination_type == "queue":
                queues.add(link.destination)
            elif link.destination not in seen:
                seen.add(link.destination)
                pending.append(link.destination)
    return queues
