"""Lines that are too long, against a plain split; and how much of a file is read to find them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bindery.jobs.sources import lines
from bindery.jobs.sources.lines import LINE_ENDS, LongLine, long_lines

MIB = 1 << 20


class Bytes:
    """Content in memory that counts what is read."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.read_bytes = 0

    def read(self, offset: int, size: int) -> bytes:
        found = self.data[offset : offset + size]
        self.read_bytes += len(found)
        return found


def plainly(data: bytes, limit: int, ends: tuple[bytes, ...]) -> list[LongLine]:
    """By looking at every byte; CR LF is one line end where both are."""
    found, start, at = [], 0, 0
    pair = (b"\r\n",) if b"\n" in ends and b"\r" in ends else ()
    while at < len(data):
        end = next((end for end in (*pair, *ends) if data.startswith(end, at)), None)
        if end is None:
            at += 1
            continue
        found.append(LongLine(start, at - start, at + len(end)))
        start = at = at + len(end)
    found.append(LongLine(start, len(data) - start, len(data)))
    return [line for line in found if line.size > limit]


@settings(max_examples=300)
@given(
    data=st.lists(st.sampled_from([b"a", b"bcdefgh", b"\n", b"\r", b"\r\n", b"x" * 40]), max_size=40).map(b"".join),
    limit=st.integers(1, 50),
    tail=st.integers(1, 9),
    block=st.integers(1, 9),
)
def test_every_line_above_the_limit_is_found(data: bytes, limit: int, tail: int, block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "_TAIL", tail)
        patch.setattr(lines, "_BLOCK", block)
        assert long_lines(Bytes(data), limit) == plainly(data, limit, LINE_ENDS)


@settings(max_examples=200)
@given(data=st.lists(st.sampled_from([b"a", b";", b"\n", b";\n", b"x" * 20]), max_size=30).map(b"".join))
def test_a_line_end_of_the_jobs_own_may_stand_across_two_blocks(data: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "_TAIL", 4)
        patch.setattr(lines, "_BLOCK", 3)
        found = long_lines(Bytes(data), 10, (b";\n",))
    # a last line without its end may be longer by what an end would take
    assert [line for line in found if line.size > 11] == [
        line for line in plainly(data, 10, (b";\n",)) if line.size > 11
    ]


def test_an_ordinary_file_is_hardly_read() -> None:
    content = Bytes((b"x" * 99 + b"\n") * (64 * MIB // 100))
    assert long_lines(content, 16 * MIB) == []
    assert content.read_bytes < MIB
