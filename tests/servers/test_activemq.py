"""What the importer says of ActiveMQ Classic is what a broker does."""

from __future__ import annotations

from pathlib import Path

from bindery.router.importers import KINDS
from bindery.router.importers.settling import settle
from bindery.router.message import Message
from bindery.router.model import Topology
from bindery.router.reference import NaiveRouter
from tests.servers import activemq

CONFIGURATION = """<beans xmlns="http://www.springframework.org/schema/beans"
  xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
  xsi:schemaLocation="http://www.springframework.org/schema/beans
    http://www.springframework.org/schema/beans/spring-beans.xsd
    http://activemq.apache.org/schema/core http://activemq.apache.org/schema/core/activemq-core.xsd">
<broker xmlns="http://activemq.apache.org/schema/core" brokerName="probe" persistent="false" useJmx="false">
<destinationInterceptors><virtualDestinationInterceptor><virtualDestinations>
  <compositeQueue name="only"><forwardTo><queue physicalName="A"/><queue physicalName="B"/></forwardTo></compositeQueue>
  <compositeQueue name="both" forwardOnly="false"><forwardTo><queue physicalName="A"/></forwardTo></compositeQueue>
  <compositeQueue name="chain"><forwardTo><queue physicalName="both"/><topic physicalName="VT.a.b"/></forwardTo>
  </compositeQueue>
  <compositeQueue name="unmatched" sendWhenNotMatched="true"><forwardTo>
    <filteredDestination selector="n > 5" queue="big"/><filteredDestination selector="s &lt;> 'x'" queue="other"/>
  </forwardTo></compositeQueue>
  <compositeQueue name="wild.*" forwardOnly="false"><forwardTo><queue physicalName="W1"/></forwardTo></compositeQueue>
  <compositeQueue name="wild.>" forwardOnly="false"><forwardTo><queue physicalName="W2"/></forwardTo></compositeQueue>
  <compositeTopic name="CT"><forwardTo><queue physicalName="A"/></forwardTo></compositeTopic>
  <virtualTopic name="VT.>"/>
  <virtualTopic name="pre" prefix="X." postfix=".end"/>
</virtualDestinations></virtualDestinationInterceptor></destinationInterceptors>
<destinations>
  <queue physicalName="Consumer.a.VT"/><queue physicalName="Consumer.b.VT.x"/><queue physicalName="Consumer.c.VT.a.b"/>
  <queue physicalName="Consumer.VT.x"/><queue physicalName="Consumer.a.b.VT.x"/><queue physicalName="X.pre.end"/>
  <queue physicalName="wild"/><queue physicalName="wild.q"/><queue physicalName="wild.q.r"/>
  <queue physicalName="plain"/>
</destinations>
</broker></beans>
"""
#: A destination, its exchange and key here, its properties there and here.
MESSAGES = [
    *((name, name, "", {}) for name in ("only", "both", "chain", "wild", "wild.q", "wild.q.r")),
    ("plain", "", "plain", {}),
    *((f"topic://{name}", name, "", {}) for name in ("CT", "VT", "VT.x", "VT.a.b", "pre")),
    ("unmatched", "unmatched", "", {"n": 9}),
    ("unmatched", "unmatched", "", {"n": 1}),
    ("unmatched", "unmatched", "", {"n": 9, "s": "y"}),
    ("unmatched", "unmatched", "", {"n": 1, "s": "x"}),
]


def test_messages_reach_the_queues_that_they_reach_in_a_broker(tmp_path: Path) -> None:
    path = tmp_path / "activemq.xml"
    path.write_text(CONFIGURATION)
    lines = [
        "\t".join(
            [to, *(f"{key}={'i:' if isinstance(value, int) else ''}{value}" for key, value in properties.items())]
        )
        for to, _, _, properties in MESSAGES
    ]
    there = activemq.reached(path, lines)
    topology = settle(KINDS["activemq-classic"].read(path.name, path.read_bytes()), Topology.empty()).topology
    router = NaiveRouter(topology, "/")
    here = [
        set(
            router.route(
                Message.from_json({"exchange": exchange, "routing_key": key, "application_properties": properties})
            ).queues
        )
        for _, exchange, key, properties in MESSAGES
    ]
    assert dict(zip(lines, here, strict=True)) == dict(zip(lines, there, strict=True))
