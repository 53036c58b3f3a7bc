"""Settings that are unsafe together are refused at start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from api.settings import Settings

DATA = Path("data")


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.1.2.3"])
def test_loopback_needs_no_tls(host: str) -> None:
    assert Settings(data=DATA, host=host).is_loopback


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.1", "example.org"])  # noqa: S104  # refused here
def test_other_addresses_need_tls_or_a_word(host: str) -> None:
    with pytest.raises(ValidationError, match="--insecure"):
        Settings(data=DATA, host=host)
    assert Settings(data=DATA, host=host, insecure=True).host == host
    assert Settings(data=DATA, host=host, ssl_certfile=DATA, ssl_keyfile=DATA).is_tls


@pytest.mark.parametrize(
    "given",
    [
        {"ssl_certfile": "x"},
        {"ssl_keyfile": "x"},
        {"admin_user": "x"},
        {"admin_password": "x"},
        {"admin_user": "x", "admin_password": ""},
        {"port": 70_000},
    ],
)
def test_halves_and_nonsense_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Settings(data=DATA, **given)


def test_the_password_is_not_shown() -> None:
    assert "secret" not in repr(Settings(data=DATA, admin_user="x", admin_password="secret"))  # type: ignore[arg-type]
