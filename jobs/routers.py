"""Compiled topologies on their way to the workers."""

from __future__ import annotations

from pyspark import Broadcast
from pyspark.sql import SparkSession

from bindery.router.engine import Router
from bindery.router.message import Message, to_batch
from bindery.router.model import Topology
from bindery.router.values import Table
from bindery.store.batches import compiled
from bindery.store.topology import TopologyStore


class Routers:
    """The newest topology of one vhost, and the candidate of its canary, by broadcast."""

    def __init__(self, spark: SparkSession, vhost: str, topologies: TopologyStore) -> None:
        self._spark = spark
        self._topologies = topologies
        self._vhost = vhost
        self._version: int | None = None
        self._broadcast: Broadcast[Router] | None = None
        self._warm = False

    def get(self, topology: Topology) -> Broadcast[Router]:
        """The broadcast Router of a topology; compiled and shipped when its version is new."""
        if self._broadcast is None or self._version != topology.version:
            self.close()
            router = compiled(topology, self._vhost, self._topologies)
            if not self._warm:
                compile_kernels(router, topology)
                self._warm = True
            self._broadcast = self._spark.sparkContext.broadcast(router)
            self._version = topology.version
        return self._broadcast

    def close(self) -> None:
        """Free what was shipped."""
        if self._broadcast is not None:
            self._broadcast.destroy()
        self._broadcast = self._version = None


def compile_kernels(router: Router, topology: Topology) -> None:
    """Route one message to each exchange here, so that machine code is compiled once and cached on disk.

    Without it every worker of a fresh installation compiles the same kernels at the same time.
    """
    header = Table({"a": 1, "b": "x"})
    exchanges = topology.in_vhost(router.vhost)[0]
    messages = [
        Message(exchange=exchange.name, routing_key="a.b", application_properties=header) for exchange in exchanges
    ]
    router.route(to_batch(messages), clock_ms=0)
