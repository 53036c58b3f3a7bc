"""The first administrator of a data directory."""

from __future__ import annotations

from collections.abc import Callable

from bindery.api.settings import Settings
from bindery.store.access import Access, AccessEditor, AccessStore, Permission, User, with_password

GENERATED_NAME = "admin"


def ensure_administrator(access: AccessStore, settings: Settings, *, generate: Callable[[], str]) -> str | None:
    """Make the first administrator, who can log in; gives the generated password, if one was made.

    The user that the settings name is made when there is no user at all: who is deleted later, or gets another
    password, stays so. Without settings, and only when there is no administrator yet, `admin` is created.
    """
    present = access.load()
    if settings.admin_user is not None and settings.admin_password is not None:
        if not present.users:
            put_administrator(access, settings.admin_user, settings.admin_password.get_secret_value())
        return None
    if _has_administrator(present):
        return None
    password = generate()
    put_administrator(access, GENERATED_NAME, password)
    return password


def put_administrator(access: AccessStore, name: str, password: str) -> None:
    """Make a user, or one that is there, an administrator with that password and every permission in "/"."""

    def change(editor: AccessEditor) -> None:
        tags = tuple(dict.fromkeys((*(editor.users[name].tags if name in editor.users else ()), "administrator")))
        editor.put_user(with_password(User(name, tags=tags), password))
        if ("/", name) not in editor.permissions:
            editor.put_permission(Permission(name, "/", ".*", ".*", ".*"))

    access.edit(change, author="bindery", action=f"made user {name!r} an administrator at start")


def _has_administrator(access: Access) -> bool:
    return any("administrator" in user.tags and user.password_hash for user in access.users.values())
