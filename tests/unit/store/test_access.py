"""Users and permissions: RabbitMQ's hashes, private files, changes from many threads and processes."""

from __future__ import annotations

import base64
import errno
import hashlib
import json
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bindery.router.definitions import Definitions
from bindery.router.errors import InvalidDeclaration, InvalidInput, NotFound, StorageFailed, UnsupportedTable
from bindery.store import faults
from bindery.store.access import (
    Access,
    AccessEditor,
    AccessStore,
    Permission,
    TopicPermission,
    User,
    hash_password,
    with_password,
)
from bindery.store.access_definitions import apply_access
from bindery.store.places import at as place

FULL = Permission("ann", "/", ".*", ".*", ".*")


@pytest.fixture
def store(root: str) -> AccessStore:
    return AccessStore(f"{root}/access")


def put(store: AccessStore, user: User) -> bool:
    return store.edit(lambda editor: editor.put_user(user), author="test", action=f"put {user.name}")


@pytest.mark.parametrize(
    ("algorithm", "digest"),
    [("rabbit_password_hashing_sha256", hashlib.sha256), ("rabbit_password_hashing_sha512", hashlib.sha512)],
)
def test_hashes_are_salt_and_digest_of_salt_and_password(algorithm: str, digest: object) -> None:
    raw = base64.b64decode(hash_password("pässword", algorithm=algorithm))
    assert raw[4:] == digest(raw[:4] + "pässword".encode()).digest()  # type: ignore[operator]
    user = User("ann", base64.b64encode(raw).decode(), algorithm)
    assert user.accepts("pässword")
    assert not user.accepts("password")


def test_a_hash_of_rabbitmqs_documentation_is_accepted() -> None:
    """The worked example of its page on passwords: "test12" with the salt 908D C60A."""
    user = User("ann", "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR")
    assert user.accepts("test12")


def test_a_user_without_hash_never_gets_in() -> None:
    assert not User("ann").accepts("")
    assert not User("ann", "not base64").accepts("")


@pytest.mark.parametrize(
    ("password_hash", "algorithm"),
    [("x", "rabbit_password_hashing_sha256"), ("AAAA", "rabbit_password_hashing_sha512"), ("", "rot13")],
)
def test_hashes_that_nothing_matches_are_refused(store: AccessStore, password_hash: str, algorithm: str) -> None:
    with pytest.raises(InvalidDeclaration):
        put(store, User("ann", password_hash, algorithm))


@pytest.mark.local_only
def test_files_are_private_and_the_audit_has_no_secrets(store: AccessStore, root: str) -> None:
    put(store, with_password(User("ann"), "secret"))
    folder = Path(root, "access")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for file in ("access.json", "audit.jsonl"):
        assert stat.S_IMODE((folder / file).stat().st_mode) == 0o600
    entry = json.loads((folder / "audit.jsonl").read_text())
    assert (entry["user"], entry["action"]) == ("test", "put ann")
    assert "secret" not in (folder / "access.json").read_text() + (folder / "audit.jsonl").read_text()


def test_what_was_put_is_there_for_another_process(store: AccessStore, root: str) -> None:
    user = with_password(User("ann", tags=("management",), limits={"max-connections": 3}), "secret")
    topic = TopicPermission("ann", "/", "t", "a", "b")
    assert put(store, user)
    assert not put(store, user)
    store.edit(lambda editor: editor.put_permission(FULL), author="test", action="grant")
    store.edit(lambda editor: editor.put_topic_permission(topic), author="test", action="grant")
    access = AccessStore(f"{root}/access").load()
    assert (access.user("ann"), access.permission("/", "ann")) == (user, FULL)
    assert list(access.topic_permissions.values()) == [topic]


def test_deleting_a_user_or_vhost_takes_its_permissions(store: AccessStore) -> None:
    put(store, User("ann"))

    def grant(editor: AccessEditor) -> None:
        editor.put_permission(FULL)
        editor.put_permission(Permission("ann", "v", "", "", ""))
        editor.put_topic_permission(TopicPermission("ann", "v", "t", "", ""))

    store.edit(grant, author="test", action="grant")
    store.edit(lambda editor: editor.forget_vhost("v"), author="test", action="vhost")
    assert set(store.load().permissions) == {("/", "ann")}
    assert not store.load().topic_permissions
    store.edit(lambda editor: editor.delete_user("ann"), author="test", action="user")
    assert not store.load().permissions


def test_permissions_need_a_user_and_linear_expressions(store: AccessStore) -> None:
    with pytest.raises(NotFound):
        store.edit(lambda editor: editor.put_permission(FULL), author="test", action="")
    put(store, User("ann"))
    for expression in ("(", r"(a)\1", "(?=a)", "a" * 1_001, "(a{1000}){1000}"):
        broken = Permission("ann", "/", expression, "", "")
        with pytest.raises(InvalidInput):
            store.edit(lambda editor, broken=broken: editor.put_permission(broken), author="test", action="")  # type: ignore[misc]
    assert not store.load().permissions


def test_exponential_expressions_take_linear_time() -> None:
    assert not Permission("ann", "/", "^(a+)+$", "", "").allows("configure", "a" * 100_000 + "b")


def test_changes_from_many_threads_all_count(store: AccessStore) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: put(store, User(f"u{number}")), range(40)))
    assert len(store.load().users) == 40


_WRITER = """
import sys
from bindery.store.access import AccessStore, User
store = AccessStore(sys.argv[1])
for number in range(15):
    store.edit(lambda editor: editor.put_user(User(f"{sys.argv[2]}{number}")), author="test", action="put")
"""


def test_changes_from_two_processes_all_count(store: AccessStore, root: str) -> None:
    command = [sys.executable, "-c", _WRITER, f"{root}/access"]
    writers = [subprocess.Popen([*command, name]) for name in ("a", "b")]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    assert len(store.load().users) == 30


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format_version": 99}', '{"format_version": 1, "users": [5]}'])
def test_a_damaged_or_newer_file_is_refused(store: AccessStore, root: str, content: str) -> None:
    place(root, "access", "access.json").replace(content.encode())
    with pytest.raises(UnsupportedTable):
        store.load()


def imported(**sections: list[dict[str, object]]) -> AccessEditor:
    editor = AccessEditor(Access())
    apply_access(Definitions((), **{name: tuple(items) for name, items in sections.items()}), editor)
    return editor


def test_users_of_definitions_files_log_in() -> None:
    """Old files have tags as text, no algorithm, and MD5 hashes; the length of the hash tells which."""
    salt = b"salt"
    md5 = base64.b64encode(salt + hashlib.md5(salt + b"old", usedforsecurity=False).digest()).decode()
    editor = imported(
        users=[
            {"name": "new", "password_hash": hash_password("x"), "tags": ["administrator"], "limits": {"a": 1}},
            {"name": "old", "password_hash": md5, "tags": "monitoring,management"},
            {"name": "plain", "password": "y", "tags": ""},
            {"name": "none", "password_hash": "", "tags": []},
        ],
        permissions=[{"user": "new", "vhost": "/", "configure": "", "write": "", "read": ".*"}],
        topic_permissions=[{"user": "new", "vhost": "/", "exchange": "t", "write": "", "read": ""}],
    )
    assert editor.users["new"].accepts("x")
    assert editor.users["old"].accepts("old")
    assert editor.users["old"].tags == ("monitoring", "management")
    assert editor.users["plain"].accepts("y")
    assert not editor.users["none"].accepts("")
    assert ("/", "new") in editor.permissions


@pytest.mark.parametrize(
    ("section", "item", "where"),
    [
        ("users", {}, "users[0].name"),
        ("users", {"name": "a", "tags": [5]}, "users[0].tags"),
        ("users", {"name": "a", "limits": {"x": "y"}}, "users[0].limits"),
        ("permissions", {"user": "a", "vhost": "/"}, "permissions[0].configure"),
    ],
)
def test_bad_users_and_permissions_are_named(section: str, item: dict[str, object], where: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        imported(**{section: [item]})
    assert refused.value.where == where


# -- a disk that fails ------------------------------------------------------------------------------------


def full(point: str, path: str) -> None:
    raise OSError(errno.ENOSPC, "No space left on device", path)


def audited(folder: str) -> list[str]:
    """What the audit says: lines of a file, or an object for each."""
    lines = (place(folder, "audit.jsonl").read() or b"").splitlines()
    lines += [place(folder, "audit", name).read() or b"" for name in place(folder, "audit").files()]
    return [json.loads(line)["action"] for line in lines if line]


def test_a_failure_at_any_point_changes_all_or_nothing_and_the_audit_says_which(root: str) -> None:
    outcomes = set()
    number, reached = 0, True
    while reached:
        number += 1
        folder = f"{root}/{number}"
        store = AccessStore(folder)
        put(store, User("first"))
        left, reached = number, False

        def fail(point: str, path: str) -> None:
            nonlocal left, reached
            left -= 1
            if left == 0:
                reached = True
                full(point, path)

        done = ["put first"]
        try:
            with faults.installed(fail):
                put(store, User("second"))
        except StorageFailed:
            assert set(AccessStore(folder).load().users) == {"first"}
            outcomes.add("nothing")
        else:
            assert set(AccessStore(folder).load().users) == {"first", "second"}
            done.append("put second")
            outcomes.add("all")
        put(store, User("third"))
        assert audited(folder) == [*done, "put third"]
        assert not [name for name in place(folder).files() if name.endswith(".tmp")]
    assert outcomes == {"nothing", "all"}
    assert number > 6


def test_without_the_audit_of_the_last_change_there_is_no_next_one(root: str) -> None:
    store = AccessStore(root)

    def no_audit(point: str, path: str) -> None:
        if point in ("append.before", "put.before") and "/audit" in path:
            full(point, path)

    with faults.installed(no_audit):
        put(store, User("done"))
        with pytest.raises(StorageFailed):
            put(store, User("refused"))
    assert set(AccessStore(root).load().users) == {"done"}
    assert audited(root) == []
    put(store, User("again"))
    assert audited(root) == ["put done", "put again"]


def test_an_audit_line_that_was_cut_short_stands_before_the_whole_one(tmp_path: Path) -> None:
    store = AccessStore(tmp_path)
    put(store, User("a"))
    put(store, User("b"))
    lines = (tmp_path / "audit.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "audit.jsonl").write_text(lines[0] + lines[1][:20])
    put(store, User("c"))
    first, torn, whole, newest = (tmp_path / "audit.jsonl").read_text().splitlines(keepends=True)
    assert (first, torn, whole) == (lines[0], lines[1][:20] + "\n", lines[1])
    assert json.loads(newest)["action"] == "put c"


@pytest.mark.local_only
def test_drafts_of_a_process_that_died_are_gone_after_the_next_change(store: AccessStore, root: str) -> None:
    left = Path(root, "access") / ".access.json.0123456789abcdef.tmp"
    left.write_text("{")
    put(store, User("a"))
    assert not left.exists()


@pytest.mark.local_only
def test_a_folder_in_the_place_of_the_file_is_named(store: AccessStore, root: str) -> None:
    Path(root, "access", "access.json").mkdir()
    for asked in (store.load, lambda: put(store, User("a"))):
        with pytest.raises(StorageFailed, match=r"access\.json"):
            asked()
