"""The page on operations tells how old files are deleted: what it shows is run."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

from router.message import Message
from router.model import Queue
from store.paths import DataDir
from store.read import read_queue
from store.topology import TopologyStore
from tests.unit.store.routed import route

PAGE = Path(__file__).parents[3] / "docs" / "operations.md"


def test_vacuum_deletes_what_nobody_committed_and_nothing_else(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    data = DataDir.open(tmp_path, create=True)
    topology = TopologyStore(data)
    topology.create()
    topology.edit(lambda editor: editor.declare_queue(Queue("/", "q")), author="ann")
    route(data, topology, [Message("", "q"), Message("", "nowhere")])
    long_ago = time.time() - 40 * 86_400
    for file in tmp_path.rglob("*.parquet"):
        os.utime(file, (long_ago, long_ago))
    committed = set(tmp_path.rglob("*.parquet"))
    left, running = (Path(data.queue("/", "q"), name) for name in ("part-dead.parquet", "part-running.parquet"))
    for file in (left, running):
        file.write_bytes(b"")
    os.utime(left, (long_ago, long_ago))

    exec(compile(code, str(PAGE), "exec"), {"DIR": data.root})  # noqa: S102  # what the page shows

    assert not left.exists()
    assert running.exists(), "a batch that is running has files that no log names yet"
    assert all(file.exists() for file in committed)
    assert read_queue(data, "q").num_rows == 1
    route(data, topology, [Message("", "q")], batch_id=1)
    assert read_queue(data, "q").num_rows == 2
