"""Identities: roles by tag, permissions by expression, and failed logins that are slowed down."""

from __future__ import annotations

import pytest

from bindery.api.auth import FailedLogins, Identity
from bindery.api.errors import Refusal
from bindery.store.access import Access, Permission, TopicPermission, User


def identity(*tags: str, permission: Permission | None = None, topic: TopicPermission | None = None) -> Identity:
    user = User("ann", tags=tags)
    return Identity(
        user,
        Access(
            {"ann": user},
            {} if permission is None else {(permission.vhost, "ann"): permission},
            {} if topic is None else {(topic.vhost, "ann", topic.exchange): topic},
        ),
    )


@pytest.mark.parametrize(
    ("tag", "roles"),
    [
        ("administrator", {"administrator", "monitoring", "policymaker", "management"}),
        ("monitoring", {"monitoring", "management"}),
        ("policymaker", {"policymaker", "management"}),
        ("management", {"management"}),
        ("other", set()),
    ],
)
def test_tags_give_roles(tag: str, roles: set[str]) -> None:
    everyone = ("administrator", "monitoring", "policymaker", "management")
    assert {role for role in everyone if identity(tag).has(role)} == roles  # type: ignore[arg-type]


def test_a_vhost_without_permission_is_seen_by_monitoring_only() -> None:
    assert not identity("management").sees("/")
    assert identity("monitoring").sees("/")
    assert identity("management", permission=Permission("ann", "/", "", "", "")).sees("/")


def test_an_administrator_without_permission_may_not_act() -> None:
    with pytest.raises(Refusal) as refused:
        identity("administrator").check("configure", "/", "q")
    assert (refused.value.status, refused.value.error, refused.value.reason) == (
        401,
        "not_authorised",
        "Access refused.",
    )


def test_permissions_are_searched_in_names() -> None:
    one = identity(permission=Permission("ann", "/", "^a", "b$", ""))
    assert one.may("configure", "/", "abc")
    assert not one.may("configure", "/", "ba")
    assert one.may("write", "/", "ab")
    assert not one.may("read", "/", "anything"), "an empty expression allows nothing"
    assert not one.may("configure", "other", "abc")


def test_the_default_exchange_has_a_name_for_permissions() -> None:
    assert identity(permission=Permission("ann", "/", "", "^amq\\.default$", "")).may("write", "/", "")


def test_topic_permissions_restrict_only_the_exchange_they_name() -> None:
    one = identity(topic=TopicPermission("ann", "/", "t", "^a\\.", ".*"))
    one.check_topic("write", "/", "t", "a.b")
    one.check_topic("write", "/", "other", "z")
    with pytest.raises(Refusal):
        one.check_topic("write", "/", "t", "z")


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_too_many_failures_are_paused_and_forgotten() -> None:
    clock = Clock()
    failures = FailedLogins(limit=3, pause=30, clock=clock)
    for _ in range(3):
        failures.check("ann", "::1")
        failures.failed("ann", "::1")
    with pytest.raises(Refusal) as refused:
        failures.check("ann", "::1")
    assert (refused.value.status, refused.value.headers["retry-after"]) == (429, "31")
    failures.check("ann", "another address")
    failures.check("bob", "::1")
    clock.now = 31
    failures.check("ann", "::1")
    failures.failed("ann", "::1")
    failures.check("ann", "::1")


def test_a_login_that_succeeds_forgets_the_failures() -> None:
    failures = FailedLogins(limit=2, pause=30, clock=Clock())
    failures.failed("ann", "")
    failures.succeeded("ann", "")
    failures.failed("ann", "")
    failures.check("ann", "")


def test_memory_of_failures_is_bounded() -> None:
    failures = FailedLogins(limit=1, pause=30, clock=Clock())
    for number in range(10_001):
        failures.failed(f"user {number}", "")
    failures.check("user 0", "")
    with pytest.raises(Refusal):
        failures.check("user 10000", "")
