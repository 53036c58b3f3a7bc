"""Whether the service can work: looked at rarely, waited for briefly."""

from __future__ import annotations

import asyncio
import threading

import pytest

from bindery.api.readiness import Readiness


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_however_many_ask_one_looks_in_a_second() -> None:
    looks: list[None] = []
    clock = Clock()

    async def ask() -> None:
        readiness = Readiness(lambda: looks.append(None), clock=clock)
        assert all(await asyncio.gather(*(readiness.is_ready() for _ in range(50))))
        clock.now = 0.9
        assert await readiness.is_ready()
        assert len(looks) == 1
        clock.now = 1.1
        assert await readiness.is_ready()
        assert len(looks) == 2

    asyncio.run(ask())


def test_a_look_that_fails_is_no_error_and_one_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    broken = True
    clock = Clock()

    def look() -> None:
        if broken:
            raise OSError("the disk is away")

    async def ask() -> None:
        nonlocal broken
        readiness = Readiness(look, clock=clock)
        assert not await readiness.is_ready()
        clock.now = 5
        assert not await readiness.is_ready()
        assert [record.getMessage() for record in caplog.records] == ["not ready: the disk is away"]
        broken = False
        assert not await readiness.is_ready(), "known for a second"
        clock.now = 10
        assert await readiness.is_ready()
        broken = True
        clock.now = 15
        assert not await readiness.is_ready()
        assert len(caplog.records) == 2

    asyncio.run(ask())


def test_a_look_that_hangs_is_waited_for_briefly_and_by_one_thread() -> None:
    looks: list[None] = []
    release = threading.Event()

    def look() -> None:
        looks.append(None)
        release.wait(60)

    async def ask() -> None:
        readiness = Readiness(look, patience=0.05)
        assert not any(await asyncio.gather(*(readiness.is_ready() for _ in range(20))))
        assert not await readiness.is_ready()
        assert len(looks) == 1
        release.set()
        while not await readiness.is_ready():
            pass

    asyncio.run(ask())
