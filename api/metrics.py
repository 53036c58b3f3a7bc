"""Metrics in Prometheus' formats.

What was routed comes from the manifest, so that streaming jobs, redrives and every control plane on the
data directory count; latencies are of this process. Names and labels are listed in docs/metrics.md.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, get_args

from prometheus_client import CollectorRegistry, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bindery.api.counts import Counts
from bindery.router.errors import BinderyError
from bindery.router.model import Topology
from bindery.router.queue_limits import LimitsOf
from bindery.store.jobs import Found, State
from bindery.store.journal_sizes import JournalSize
from bindery.store.totals import Totals

Labels = tuple[str, ...]
Family = CounterMetricFamily | GaugeMetricFamily | SummaryMetricFamily

_LOGGER: Final = logging.getLogger("bindery.api")
#: The value of every label of the series that sums what has no series of its own.
OTHER: Final = "__other__"
#: Characters of a filter's text that a label shows.
_FILTER_CHARS: Final = 200
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_BUCKETS: Final = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Shown:
    """Which keys of one family have a series of their own: the first `limit` that were seen.

    Of those seen at once the largest go first. A key keeps its place, so that every series, that of the
    others included, only ever grows.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._own: set[Labels] = set()

    def split(self, totals: Mapping[Labels, float]) -> tuple[dict[Labels, float], float | None]:
        """Totals with a series of their own, and the sum of the others; None when there are none.

        Something that is really called like the others is one of them.
        """
        if len(self._own) < self._limit:
            new = [key for key in totals if key not in self._own and set(key) != {OTHER}]
            new.sort(key=lambda key: (-totals[key], key))
            self._own.update(new[: self._limit - len(self._own)])
        own = {key: total for key, total in totals.items() if key in self._own}
        others = None if len(own) == len(totals) else sum(n for key, n in totals.items() if key not in own)
        return own, others


class RoutingCollector(Collector):
    """Routing as the manifest records it, and the topology; looked up at each scrape."""

    def __init__(
        self,
        topology: Callable[[], Topology],
        totals: Callable[[], Totals],
        counts: Counts,
        jobs: Callable[[], Sequence[Found]],
        journals: Callable[[], Mapping[str, JournalSize]],
        *,
        limit: int,
        depths: bool,
    ) -> None:
        self._topology = topology
        self._jobs = jobs
        self._journals = journals
        self._counts = counts
        self._totals = totals
        self._depths = depths
        self._limit = limit
        self._lock = threading.Lock()
        self._shown: dict[str, Shown] = {}
        #: A topology's version, and its queues with limits.
        self._limited: tuple[int, list[tuple[str, str]]] | None = None
        #: binding or divert -> (vhost, source); an id never changes its source and is never given again.
        self._sources: dict[int, tuple[str, str]] = {}

    def describe(self) -> list[Family]:
        """Nothing: registering asks for no scrape."""
        return []

    def collect(self) -> list[Family]:
        """Every family; one scrape at a time."""
        with self._lock:
            return list(self._families(self._topology(), self._totals()))

    def _families(self, topology: Topology, totals: Totals) -> Iterator[Family]:
        yield GaugeMetricFamily("bindery_topology_version", "Newest topology version.", value=topology.version)
        objects = GaugeMetricFamily("bindery_topology_objects", "Objects of the topology.", labels=["kind"])
        for kind in ("vhosts", "exchanges", "queues", "bindings", "diverts"):
            objects.add_metric([kind], len(getattr(topology, kind)))
        yield objects
        yield from self._of_streams(totals)
        yield from self._of_objects(topology, totals)
        yield from self._of_jobs()
        yield from self._of_journals()
        if self._depths:
            yield from self._depths_of(topology)

    def _of_streams(self, totals: Totals) -> Iterator[Family]:
        streams = {
            "bindery_batches": ("Batches committed.", totals.batches),
            "bindery_messages": ("Messages read, unreadable ones included.", totals.records),
            "bindery_copies": ("Copies routed to queues.", totals.copies),
        }
        for name, (text, counted) in streams.items():
            yield self._counter(name, text, ("stream",), {(stream,): n for stream, n in counted.items()})
        last = GaugeMetricFamily(
            "bindery_last_batch_timestamp_seconds", "When the last batch was committed.", labels=["stream"]
        )
        own, _ = self._split("bindery_last_batch", {(stream,): 0.0 for stream in totals.committed})
        for (stream,) in own:
            last.add_metric([stream], totals.committed[stream])
        yield last
        stages = SummaryMetricFamily(
            "bindery_batch_stage_seconds", "Time that batches spent in a stage.", labels=["stream", "stage"]
        )
        own, _ = self._split("bindery_batch_stage_seconds", dict.fromkeys(totals.stages, 0.0))
        for stream, stage in own:
            seconds, number = totals.stages[stream, stage]
            stages.add_metric([stream, stage], count_value=number, sum_value=seconds)
        yield stages
        text = "Messages that reached no queue."
        yield self._counter("bindery_unroutable", text, ("stream", "reason"), totals.unroutable)
        text = "Records that are no messages, by what is wrong with them."
        yield self._counter("bindery_invalid_records", text, ("stream", "kind"), totals.invalid)
        text = "Evaluations of a filter that met run-time trouble, such as arithmetic on text."
        yield self._counter("bindery_filter_unknowns", text, ("filter",), _by_filter(totals.filter_unknowns))
        text = "Evaluations of a filter that failed because of a defect in Bindery; copies may be missing."
        yield self._counter("bindery_filter_errors", text, ("filter",), _by_filter(totals.filter_errors))
        text = "Messages whose bodies the filters of an exchange or queue could not read."
        labels = ("kind", "vhost", "name", "reason")
        unread: dict[tuple[str, ...], int] = {}
        for (_, *place), number in totals.unparsable.items():
            unread[tuple(place)] = unread.get(tuple(place), 0) + number
        yield self._counter("bindery_unparsable_bodies", text, labels, unread)
        text = "Messages of a canary, routed by the present topology and by the candidate."
        compared: dict[tuple[str, ...], int] = {}
        for (vhost, _, what, _), number in totals.canary.items():
            if what in ("messages", "differing"):
                compared[vhost, what] = compared.get((vhost, what), 0) + number
        yield self._counter("bindery_canary_messages", text, ("vhost", "what"), compared)
        text = "Requests of batches to an object store."
        yield self._counter("bindery_storage_requests", text, ("stream", "kind"), totals.requests)
        retries = CounterMetricFamily("bindery_commit_retries", "Commits that lost a race.", labels=["table"])
        for kind, number in sorted(totals.retries.items()):
            retries.add_metric([kind], number)
        yield retries

    def _of_objects(self, topology: Topology, totals: Totals) -> Iterator[Family]:
        self._sources |= {item.id: (item.vhost, item.source) for item in topology.bindings.values()}
        self._sources |= {item.id: (item.vhost, item.source) for item in topology.diverts.values()}
        yield self._counter(
            "bindery_exchange_in", "Messages published to an exchange.", ("vhost", "exchange"), totals.exchanges
        )
        out: dict[tuple[str, str], float] = {}
        for number, matched in totals.bindings.items():
            if number in self._sources:
                source = self._sources[number]
                out[source] = out.get(source, 0) + matched
        text = "Matches of an exchange's bindings and diverts, one for each that a message matched."
        yield self._counter("bindery_exchange_out", text, ("vhost", "exchange"), out)
        text = "Messages that a binding or divert matched."
        matches: dict[Labels, float] = {(str(number),): matched for number, matched in totals.bindings.items()}
        yield self._counter("bindery_binding_matches", text, ("binding",), matches)
        info = GaugeMetricFamily(
            "bindery_binding_info",
            "What a binding or divert that counted something is; the value is 1.",
            labels=["binding", "vhost", "source", "destination", "destination_type", "routing_key"],
        )
        diverts = {divert.id: divert for divert in topology.diverts.values()}
        for (label,) in self._split("bindery_binding_matches", matches)[0]:
            binding, divert = topology.bindings.get(int(label)), diverts.get(int(label))
            if binding is not None:
                ends = (binding.vhost, binding.source, binding.destination)
                info.add_metric([label, *ends, binding.destination_type, binding.routing_key], 1)
            elif divert is not None:
                ends = (divert.vhost, divert.source, divert.destination)
                info.add_metric([label, *ends, "exchange", divert.routing_key or ""], 1)
        yield info
        for name, text, counted in (
            ("bindery_queue_in", "Rows appended to a queue.", totals.rows),
            ("bindery_queue_dropped", "Rows for a queue that was deleted after its batch began.", totals.dropped),
        ):
            queues = {(vhost, queue): float(n) for (kind, vhost, queue), n in counted.items() if kind == "queue"}
            yield self._counter(name, text, ("vhost", "queue"), queues)
        rows = {(vhost,): float(n) for (kind, vhost, _), n in totals.rows.items() if kind == "unroutable"}
        yield self._counter("bindery_unroutable_rows", "Rows of a vhost's unroutable table.", ("vhost",), rows)
        limited = self._limited_queues(topology)
        gone = {
            (*key, reason): float(number)
            for key, held in zip(limited, self._counts.of_many(limited), strict=True)
            for reason, number in held.limited.items()
        }
        text = "Rows that the limits of a queue have deleted."
        yield self._counter("bindery_queue_limited_rows", text, ("vhost", "queue", "reason"), gone)

    def _limited_queues(self, topology: Topology) -> list[tuple[str, str]]:
        """The queues whose rows limits bound."""
        if self._limited is None or self._limited[0] != topology.version:
            found = [(queue.vhost, queue.name) for queue, limits in LimitsOf(topology).limited() if limits]
            self._limited = (topology.version, found)
        return self._limited[1]

    def _of_jobs(self) -> Iterator[Family]:
        """The states of submitted jobs: gauges, so that those of jobs without a series of their own are left out."""
        try:
            jobs = {(found.record.stream,): found for found in self._jobs()}
        except BinderyError as error:  # a damaged record hides the jobs, and not everything else
            _LOGGER.warning("the metrics lack the jobs: %s", error.message)
            return
        own, _ = self._split("bindery_job", dict.fromkeys(jobs, 0.0))
        states = GaugeMetricFamily(
            "bindery_job_state",
            "1 for the state that a submitted job is in, 0 for the others.",
            labels=["stream", "state"],
        )
        lag = GaugeMetricFamily(
            "bindery_job_lag_seconds", "Since when a running job has not caught up; 0 when it has.", labels=["stream"]
        )
        waiting = GaugeMetricFamily(
            "bindery_job_waiting", "1 for a running job that has no executor, or cannot send.", labels=["stream"]
        )
        for (stream,) in own:
            found = jobs[stream,]
            for state in get_args(State):
                states.add_metric([stream, state], float(found.state == state))
            said = (found.status.progress or {}) if found.status is not None else {}
            if found.alive:
                waiting.add_metric([stream], float(said.get("waiting") is not None))
                if "lag" in said:
                    lag.add_metric([stream], said["lag"]["seconds"])
        yield from (states, lag, waiting)

    def _of_journals(self) -> Iterator[Family]:
        """What journals hold: gauges, so that those of streams without a series of their own are left out."""
        try:
            journals = self._journals()
        except BinderyError as error:  # as with jobs
            _LOGGER.warning("the metrics lack the journals: %s", error.message)
            return
        own, _ = self._split("bindery_journal", {(stream,): 0.0 for stream in journals})
        rows = GaugeMetricFamily("bindery_journal_rows", "Rows of a stream's journal.", labels=["stream"])
        size = GaugeMetricFamily("bindery_journal_bytes", "Bytes of the files of a journal.", labels=["stream"])
        oldest = GaugeMetricFamily(
            "bindery_journal_oldest_timestamp_seconds",
            "When the oldest row of a journal was routed.",
            labels=["stream"],
        )
        waiting = GaugeMetricFamily(
            "bindery_journal_waiting_timestamp_seconds",
            "When the oldest message was routed that has copies which wait for deferred queues.",
            labels=["stream"],
        )
        for (stream,) in own:
            journal = journals[stream]
            if journal.waiting is not None:
                waiting.add_metric([stream], journal.waiting.timestamp())
            rows.add_metric([stream], journal.rows)
            size.add_metric([stream], journal.bytes)
            if journal.oldest is not None:
                oldest.add_metric([stream], journal.oldest.timestamp())
        yield from (rows, size, oldest, waiting)

    def _depths_of(self, topology: Topology) -> Iterator[Family]:
        depth = GaugeMetricFamily("bindery_queue_depth", "Rows that a queue holds.", labels=["vhost", "queue"])
        waiting = GaugeMetricFamily(
            "bindery_queue_waiting",
            "Rows among those of a deferred queue that its table has not yet.",
            labels=["vhost", "queue"],
        )
        own, _ = self._split("bindery_queue_depth", dict.fromkeys(topology.queues, 0.0))
        shown = [key for key in topology.queues if key in own]
        for key, held in zip(shown, self._counts.of_many(shown), strict=True):
            depth.add_metric(list(key), held.messages)
            if held.waiting:
                waiting.add_metric(list(key), held.waiting)
        yield from (depth, waiting)

    def _split(self, name: str, totals: Mapping[Labels, float]) -> tuple[dict[Labels, float], float | None]:
        return self._shown.setdefault(name, Shown(self._limit)).split(totals)

    def _counter(self, name: str, text: str, labels: Labels, totals: Mapping[Any, float]) -> CounterMetricFamily:
        family = CounterMetricFamily(name, text, labels=labels)
        own, others = self._split(name, totals)
        for key, total in own.items():
            family.add_metric(list(key), total)
        if others is not None:
            family.add_metric([OTHER] * len(labels), others)
        return family


class Latencies:
    """ASGI middleware that times answers by method, route template and status: labels nobody can invent."""

    def __init__(self, app: ASGIApp, histogram: Histogram) -> None:
        self.app = app
        self._histogram = histogram

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the request on, and count it when it is answered."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        status = 500  # what an error that nobody handles becomes

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, noting)
        finally:
            template = getattr(scope.get("route"), "path", "unmatched").replace(":segment", "")
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self._histogram.labels(method, template, str(status)).observe(time.perf_counter() - started)


def _by_filter(counted: Mapping[str, int]) -> dict[tuple[str], float]:
    """Counts by as much of a filter's text as a label shows."""
    shown = {(text[:_FILTER_CHARS],): 0.0 for text in counted}
    for text, number in counted.items():
        shown[text[:_FILTER_CHARS],] += number
    return shown


class Metrics:
    """The registry of one application."""

    def __init__(
        self,
        topology: Callable[[], Topology],
        totals: Callable[[], Totals],
        counts: Counts,
        jobs: Callable[[], Sequence[Found]],
        journals: Callable[[], Mapping[str, JournalSize]],
        *,
        limit: int,
        depths: bool,
    ) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self.requests = Histogram(
            "bindery_http_request_seconds",
            "Time to answer a request.",
            ("method", "route", "status"),
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.registry.register(RoutingCollector(topology, totals, counts, jobs, journals, limit=limit, depths=depths))
        ProcessCollector(registry=self.registry)
