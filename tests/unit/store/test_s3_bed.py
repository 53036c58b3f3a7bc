"""The object store that other tests rely on, and the proxy before it, seen by a client."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import obstore
import pytest
from obstore.exceptions import AlreadyExistsError, GenericError, PermissionDeniedError
from obstore.store import ObjectStore, from_url

from tests.servers.faulty_s3 import FaultyS3
from tests.servers.s3 import second_opinion

_KEYS, _PUTTERS = 300, 8


def _open(root: str, retries: int = 0) -> ObjectStore:
    return from_url(root, retry_config={"max_retries": retries})


def test_exactly_one_of_many_creators_of_a_key_wins(s3_root: str) -> None:
    """Guards the bed itself: with a store that lets two win, no test of commits means anything."""
    store = _open(s3_root)
    together = threading.Barrier(_PUTTERS)

    def put_all(putter: int) -> list[int]:
        won = []
        for key in range(_KEYS):
            together.wait()
            try:
                obstore.put(store, f"{key:04}", str(putter).encode(), mode="create")
            except AlreadyExistsError:
                continue
            won.append(key)
        return won

    with ThreadPoolExecutor(_PUTTERS) as pool:
        wins = list(pool.map(put_all, range(_PUTTERS)))
    assert sorted(key for won in wins for key in won) == list(range(_KEYS))
    for putter, won in enumerate(wins):
        assert {bytes(obstore.get(store, f"{key:04}").bytes()) for key in won} <= {str(putter).encode()}


def test_each_test_has_a_prefix_of_its_own_that_children_see(s3_root: str) -> None:
    program = f"import obstore, obstore.store as s; obstore.put(s.from_url({s3_root!r}), 'a', b'child')"
    assert list(obstore.list(_open(s3_root))) == []
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60, env=dict(os.environ))
    assert bytes(obstore.get(_open(s3_root), "a").bytes()) == b"child"


def test_requests_are_counted_by_kind_and_key(s3_root: str, faulty_s3: FaultyS3) -> None:
    store = _open(s3_root)
    with faulty_s3.counting() as requests:
        obstore.put(store, "log/1 +.json", b"1", mode="create")
        obstore.put(store, "log/2.json", b"2" * 20, mode="overwrite")
        obstore.put(store, "data", b"x" * 10_000_000, chunk_size=5 * 1024 * 1024)
        obstore.get(store, "log/1 +.json").bytes()
        obstore.get_range(store, "log/2.json", start=3, length=4)
        obstore.head(store, "log/2.json")
        obstore.list(store, "log").collect()
        obstore.list_with_delimiter(store, "log")
        obstore.copy(store, "log/2.json", "log/3.json")
        obstore.delete(store, ["log/1 +.json", "log/2.json"])
    counts = requests.by_kind()
    assert counts.pop("multipart") == 4  # begin, two parts, end
    assert counts == {"put": 2, "get": 2, "head": 1, "list": 2, "copy": 1, "delete": 1}
    assert len(requests.of({"put", "get"}, "*/log/1 +.json")) == 2
    assert len(requests.of({"delete"}, "*/log/2.json")) == 1
    obstore.head(store, "log/3.json")
    assert "head" not in requests.of(keys="*/log/3.json").by_kind()


@pytest.mark.parametrize("code", ["InternalError", "SlowDown", "TooManyRequests"])
def test_a_client_outlasts_errors_that_pass(code: str, s3_root: str, faulty_s3: FaultyS3) -> None:
    patient = _open(s3_root, retries=10)
    with faulty_s3.counting() as requests, faulty_s3.failing(code, nth=1, kinds={"put"}):
        obstore.put(patient, "a", b"1")
    assert requests.by_kind() == {"put": 2}
    with faulty_s3.failing(code, kinds={"get"}, keys="*/a"), pytest.raises(GenericError, match=code):
        obstore.get(_open(s3_root), "a")
    assert bytes(obstore.get(_open(s3_root), "a").bytes()) == b"1"


def test_random_faults_are_those_of_the_seed(s3_root: str, faulty_s3: FaultyS3) -> None:
    store = _open(s3_root)
    obstore.put(store, "a", b"1")

    def outcomes(seed: int) -> list[bool]:
        def succeeds() -> bool:
            try:
                obstore.head(store, "a")
            except GenericError:
                return False
            return True

        with faulty_s3.failing("InternalError", chance=0.5, seed=seed):
            return [succeeds() for _ in range(40)]

    assert outcomes(1) == outcomes(1) != outcomes(2)


def test_an_answer_that_is_lost_has_had_its_effect(s3_root: str, faulty_s3: FaultyS3) -> None:
    store = _open(s3_root)
    with faulty_s3.losing_answers(keys="*/log/*", nth=2):
        obstore.put(store, "log/1", b"1", mode="create")
        obstore.put(store, "data", b"1", mode="create")
        with pytest.raises(GenericError):
            obstore.put(store, "log/2", b"2", mode="create")
        obstore.put(store, "log/3", b"3", mode="create")
    assert bytes(obstore.get(store, "log/2").bytes()) == b"2"
    with faulty_s3.losing_requests(kinds={"put"}), pytest.raises(GenericError):
        obstore.put(store, "log/4", b"4")
    assert len(obstore.list(store, "log").collect()) == 3


def test_a_delayed_request_is_overtaken(s3_root: str, faulty_s3: FaultyS3) -> None:
    store = _open(s3_root)
    arrived, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        arrived.set()
        go_on.wait(60)

    with faulty_s3.before(wait, kinds={"put"}), ThreadPoolExecutor(1) as pool:
        slow = pool.submit(obstore.put, store, "a", b"slow", mode="create")
        assert arrived.wait(60)
        obstore.put(store, "a", b"fast", mode="create")
        go_on.set()
        with pytest.raises(AlreadyExistsError):
            slow.result(60)
    with faulty_s3.delayed(0.01):
        assert bytes(obstore.get(store, "a").bytes()) == b"fast"


def test_a_store_without_conditional_put(s3_root: str, faulty_s3: FaultyS3) -> None:
    if second_opinion():
        return  # it checks signatures, of which the header is a part
    store = _open(s3_root)
    obstore.put(store, "a", b"1", mode="create")
    with faulty_s3.without_conditional_put():
        obstore.put(store, "a", b"2", mode="create")
    assert bytes(obstore.get(store, "a").bytes()) == b"2"
    with pytest.raises(AlreadyExistsError):
        obstore.put(store, "a", b"3", mode="create")


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("SignatureDoesNotMatch", PermissionDeniedError),
        ("InvalidAccessKeyId", PermissionDeniedError),
        ("RequestTimeTooSkewed", PermissionDeniedError),
        ("AccessDenied", PermissionDeniedError),
        ("NoSuchBucket", FileNotFoundError),
    ],
)
def test_a_store_that_refuses_says_why(code: str, error: type[Exception], s3_root: str, faulty_s3: FaultyS3) -> None:
    with faulty_s3.failing(code), pytest.raises(error, match=code):
        obstore.get(_open(s3_root), "a")


def test_many_requests_at_once(s3_root: str, faulty_s3: FaultyS3) -> None:
    store = _open(s3_root)
    with faulty_s3.counting() as requests, ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda n: obstore.put(store, str(n), b"x" * 1000, mode="create"), range(500)))
    assert requests.by_kind() == {"put": 500}
    assert len(obstore.list(store).collect()) == 500
