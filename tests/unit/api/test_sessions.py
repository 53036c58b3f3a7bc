"""Sessions of the console: how they begin, what keeps them alive, and everything that ends them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bindery.api import sessions
from bindery.api.sessions import Sessions
from bindery.store.access import Access, User, hash_password

IDLE, LONGEST = 60.0, 600.0


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def kept(clock: Clock) -> Sessions:
    return Sessions(idle=IDLE, longest=LONGEST, clock=clock)


ANN = User("ann", hash_password("one"), tags=("management",))


def access(*users: User) -> Access:
    return Access({user.name: user for user in users}, {}, {})


def test_a_token_stands_for_its_user_as_they_are_now(kept: Sessions) -> None:
    token = kept.begin(ANN)
    promoted = replace(ANN, tags=("administrator",))
    assert kept.user(token, access(promoted)) is promoted
    assert kept.user(kept.begin(ANN), access(ANN)) is ANN
    assert kept.user("x", access(ANN)) is None
    assert kept.user("x" * 10_000, access(ANN)) is None


def test_tokens_are_of_256_bits_and_none_is_kept(kept: Sessions) -> None:
    tokens = {kept.begin(ANN) for _ in range(100)}
    assert len(tokens) == 100
    assert {len(token) for token in tokens} == {43}  # 256 bits in base64
    assert not any(token in repr(vars(kept)) for token in tokens)


def test_use_keeps_a_session_alive_and_live_views_do_not(kept: Sessions, clock: Clock) -> None:
    used, watched = kept.begin(ANN), kept.begin(ANN)
    for _ in range(3):
        clock.now += IDLE / 2
        assert kept.user(used, access(ANN))
        assert (kept.user(watched, access(ANN), live=True) is not None) == (clock.now <= 1_000 + IDLE)
    assert kept.remembered == 1


def test_a_session_ends_after_its_longest_time_in_any_case(kept: Sessions, clock: Clock) -> None:
    token = kept.begin(ANN)
    while clock.now + IDLE / 2 <= 1_000 + LONGEST:
        clock.now += IDLE / 2
        assert kept.user(token, access(ANN))
    clock.now += IDLE / 2
    assert kept.user(token, access(ANN)) is None


def test_a_session_ends_with_its_user_and_with_their_password(kept: Sessions) -> None:
    token = kept.begin(ANN)
    assert kept.user(token, access()) is None
    assert kept.user(token, access(ANN)) is None, "a user of that name who comes later is another one"
    token = kept.begin(ANN)
    assert kept.user(token, access(replace(ANN, password_hash=hash_password("two")))) is None
    token = kept.begin(ANN)
    kept.end(token)
    kept.end(token)
    assert kept.user(token, access(ANN)) is None


def test_the_sessions_that_were_used_last_are_remembered(kept: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_REMEMBERED", 2)
    first, second = kept.begin(ANN), kept.begin(ANN)
    assert kept.user(first, access(ANN))
    third = kept.begin(ANN)
    assert [kept.user(token, access(ANN)) is not None for token in (first, second, third)] == [True, False, True]
