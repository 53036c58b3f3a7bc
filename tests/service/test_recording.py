"""A live RabbitMQ routes as its compatibility mode says (docs/compat.md)."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from bindery.conformance import read_cases, run_cases
from tests.recording.__main__ import record
from tests.recording.worlds import Worlds
from tests.servers.rabbitmq import RabbitMQ


def test_a_live_broker_and_its_mode_agree_on_random_messages(tmp_path: Path) -> None:
    with RabbitMQ(tmp_path / "node") as node:
        connection = node.connect(heartbeat=0)
        cases = record(connection, Worlds(11, "rabbitmq-3"), 1_000, Counter(), together=100)
        lines = [json.dumps({**case, "compat": "rabbitmq-3"}) for case in cases]
        connection.close()
    (tmp_path / "recorded.jsonl").write_text("\n".join(lines))
    report = run_cases(read_cases([tmp_path / "recorded.jsonl"]), clock_ms=0)
    assert len(report.outcomes) == 10
    assert not report.failures
