"""What lint says is made once for each state of a vhost."""

from __future__ import annotations

from typing import Any

import pytest

from bindery.api import lint_reports
from bindery.api.lint_reports import VHOSTS, LintReports
from bindery.router.analysis import analyse
from bindery.router.declarations import TopologyEditor
from bindery.router.model import Queue, Topology
from bindery.router.proposal import propose


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The vhosts that were analysed."""
    asked: list[str] = []

    def counted(topology: Topology, *, vhosts: list[str], **more: Any) -> Any:
        asked.extend(vhosts)
        return analyse(topology, vhosts=vhosts, **more)

    monkeypatch.setattr(lint_reports, "analyse", counted)
    return asked


def with_queue(topology: Topology, vhost: str, name: str) -> Topology:
    editor = TopologyEditor(topology)
    editor.declare_queue(Queue(vhost, name))
    editor.topology.version = topology.version + 1
    return editor.topology


def test_a_vhost_is_analysed_again_only_when_it_has_changed(made: list[str]) -> None:
    first = propose(Topology.empty(), "/", {"vhosts": [{"name": "a"}, {"name": "b"}]})
    reports = LintReports()
    for vhost in ("a", "b", "a"):
        reports.of_vhost(first, vhost)
    assert made == ["a", "b"]
    second = with_queue(first, "a", "lonely")
    assert reports.of_vhost(second, "b").about("queue", "lonely").findings == []
    (found,) = reports.of_vhost(second, "a").about("queue", "lonely").findings
    assert (found.code, made) == ("BT120", ["a", "b", "a"])
    # the vhost is as it was, whatever happens beside it
    reports.of_vhost(with_queue(second, "b", "other"), "a")
    assert made == ["a", "b", "a"]


def test_reports_of_a_bounded_number_of_vhosts_are_kept(made: list[str]) -> None:
    names = [f"v{number}" for number in range(VHOSTS + 1)]
    topology = propose(Topology.empty(), "/", {"vhosts": [{"name": name} for name in names]})
    reports = LintReports()
    for name in names:
        reports.of_vhost(topology, name)
    reports.of_vhost(topology, names[-1])
    assert made == names
    reports.of_vhost(topology, names[0])
    assert made == [*names, names[0]]


def test_findings_stand_beside_both_ends_of_a_link(made: list[str]) -> None:
    document = {
        "exchanges": [{"name": "x", "type": "topic"}, {"name": "y", "type": "fanout"}],
        "queues": [{"name": "q"}],
        "bindings": [{"source": "x", "destination": "q", "routing_key": key} for key in ("a.#", "a.b")],
        "bindery_diverts": [{"name": "d", "source": "x", "destination": "y", "filter": "n > 1 AND n < 1"}],
    }
    report = LintReports().of_vhost(propose(Topology.empty(), "/", document), "/")

    def codes(kind: str, name: str) -> set[str]:
        return {one.code for one in report.about(kind, name).findings}

    assert {"BT101", "BT170"} <= codes("exchange", "x")
    assert codes("queue", "q") == {"BT101"}
    assert "BT170" in codes("exchange", "y") and "BT101" not in codes("exchange", "y")
    assert report.about("queue", "none").findings == []
