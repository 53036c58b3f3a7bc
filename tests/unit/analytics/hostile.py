"""Queues and headers whose names are made to break out of statements."""

from __future__ import annotations

from typing import Final

from bindery.store.commit import BatchCommitter
from bindery.store.paths import DataDir
from bindery.store.tables import ensure_unroutable_table
from bindery.store.topology import TopologyStore
from tests.unit.store.conftest import declare_queues, deliver

HOSTILE: Final = sorted(
    [
        "late.majors",
        "Late",
        "late",
        "it's",
        'q"x',
        "a`b",
        "back\\slash",
        "${env:HOME} ${x}",
        "x;--\ny",
        "/*",
        "\x1b[31mred",
        "\N{ZERO WIDTH JOINER}é\N{GRINNING FACE}",
        "bindery____manifest",
        "x" * 255,
    ]
)
KEY: Final = "o'd.d`\"\\${HOME}\x1b\n\N{GRINNING FACE}"
_ROWS: Final = 3


def headers(seq: int) -> list[tuple[str, dict[str, object]]]:
    """Headers of one type and of several; a name that only quoting keeps whole, and two that differ by case."""
    return [
        ("carrier", {"string": "UA"}),
        ("dep_delay", {"int": 60 + seq} if seq else {"double": 0.5}),
        (KEY, ({"bool": True}, {"binary": b"\xab"}, {"string": "'"})[seq]),
        ("when", ({"timestamp": 1_700_000_000_123_000}, {"nested": "[1]"}, {"int": 7})[seq]),
        ("at", {"timestamp": 1_700_000_000_123_000}),
        ("Type", {"string": "x"}),
        ("type", {"bool": False}),
        ("body", {"binary": b"\x00"}),
        ("null", {}),
    ]


def delivered(data: DataDir) -> DataDir:
    """A data directory with those queues, three rows in each, as of topology version 2."""
    version = TopologyStore(data).edit(declare_queues(*HOSTILE), author="t").version
    with BatchCommitter(data, stream="s", app_id="s:1") as committer:
        for batch, name in enumerate(HOSTILE):
            deliver(data, committer, batch, version, name, rows=_ROWS, application_properties=headers)
    ensure_unroutable_table(data, "/")
    return data
