"""The first administrator of a data directory."""

from __future__ import annotations

from collections.abc import Callable

from bindery.api.settings import Settings
from bindery.store.access import Access, AccessEditor, AccessStore, Permission, User, with_password

GENERATED_NAME = "admin"


def ensure_administrator(access: AccessStore, settings: Settings, *, generate: Callable[[], str]) -> str | None:
    """Make sure that an administrator can log in; gives the generated password, if one was made.

    A user named by the settings gets that password, the tag `administrator` and every permission in the
    vhost "/". Without settings, and only when there is no administrator yet, `admin` is created.
    """
    if settings.admin_user is not None and settings.admin_password is not None:
        name, password = settings.admin_user, settings.admin_password.get_secret_value()
        present = access.load().users.get(name)
        if present is None or not present.accepts(password) or "administrator" not in present.tags:
            _put(access, name, password)
        return None
    if _has_administrator(access.load()):
        return None
    password = generate()
    _put(access, GENERATED_NAME, password)
    return password


def _has_administrator(access: Access) -> bool:
    return any("administrator" in user.tags and user.password_hash for user in access.users.values())


def _put(access: AccessStore, name: str, password: str) -> None:
    def change(editor: AccessEditor) -> None:
        tags = tuple(dict.fromkeys((*(editor.users[name].tags if name in editor.users else ()), "administrator")))
        editor.put_user(with_password(User(name, tags=tags), password))
        if ("/", name) not in editor.permissions:
            editor.put_permission(Permission(name, "/", ".*", ".*", ".*"))

    access.edit(change, author="bindery", action=f"made user {name!r} an administrator at start")
