"""What a program may give as a topology; without Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import bindery
from bindery.analytics.embedded import topology_of
from bindery.router.errors import DefinitionsRefused, InvalidInput
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore

DEFINITIONS = {
    "queues": [{"vhost": "/", "name": "late"}],
    "bindings": [{"vhost": "/", "source": "amq.topic", "destination": "late", "routing_key": "#"}],
}


def test_a_topology_is_given_in_many_ways(tmp_path: Path) -> None:
    file = tmp_path / "topology.json"
    file.write_text(json.dumps(DEFINITIONS), "utf-8")
    TopologyStore(DataDir.open(tmp_path / "data", create=True)).create()
    directory = bindery.open(tmp_path / "data")
    for definitions in (DEFINITIONS, file, str(file)):
        assert list(topology_of(definitions).queues) == [("/", "late")]
    for data in (directory.path, tmp_path / "data", directory, directory.snapshot(), directory.topology):
        assert topology_of(data) == directory.topology


def test_what_is_no_topology_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DefinitionsRefused, match="queuess"):
        topology_of({"queuess": []})
    with pytest.raises(InvalidInput):
        topology_of(tmp_path / "nowhere")
