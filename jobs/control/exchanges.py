"""Exchanges that a job names and the topology does not have: no error, since they may be declared any time."""

from __future__ import annotations

from collections.abc import Iterator

from bindery.jobs.control.bridge import literal
from bindery.jobs.control.config import JobFile
from bindery.jobs.control.kafka import KafkaSource
from bindery.router.error_text import visible
from bindery.router.model import Topology
from bindery.router.spelling import did_you_mean, nearest


def missing_exchanges(file: JobFile, topology: Topology) -> list[str]:
    """A warning for each exchange that the job file names literally and that is not there."""
    known = sorted(name for vhost, name in topology.exchanges if vhost == file.job.vhost)
    found = []
    for key, name in _named(file):
        if name and name not in known:
            near = nearest(name, known)
            meant = did_you_mean(near, before=": ")
            said = f"there is no exchange {name!r} in vhost {file.job.vhost!r}{meant}"
            found.append(visible(f"warning: {file.place(key)}: {'.'.join(key)}: {said}"))
    return found


def _named(file: JobFile) -> Iterator[tuple[tuple[str, ...], str]]:
    """The exchanges that a job file names, each with its key."""
    job = file.job
    if "exchange" in job.message:
        name = literal(job, "exchange")
        if name is not None:
            yield ("message", "exchange"), name
    elif isinstance(job.source, KafkaSource):
        for topic, name in job.source.exchanges.items():
            yield ("source", "exchanges", topic), name
        for topic in job.source.topics or ():
            if topic not in job.source.exchanges:
                yield ("source", "topics"), topic
