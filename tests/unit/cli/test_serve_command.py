"""`bindery serve`: the socket that it listens on."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from bindery.api.settings import Settings
from bindery.cli.serve import _check_certificate, _listen
from bindery.router.errors import InvalidInput


def test_small_answers_are_sent_at_once(tmp_path: Path) -> None:
    """Without TCP_NODELAY every answer with a body waits for the client's delayed acknowledgement: 40 ms."""

    async def option() -> int:
        accepted: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def connected(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            accepted.set_result(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        listener = _listen(Settings(data=str(tmp_path), host="127.0.0.1", port=0))
        async with await asyncio.start_server(connected, sock=listener):
            _, writer = await asyncio.open_connection(*listener.getsockname())
            found = await accepted
            writer.close()
            return found

    assert asyncio.run(option())


def test_a_port_that_is_taken_and_an_address_of_another_machine(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(InvalidInput, match="Address already in use") as found:
            _listen(Settings(data=str(tmp_path), port=taken.getsockname()[1]))
    assert (found.value.where, "another process listens there" in str(found.value.hint)) == ("--port", True)
    with pytest.raises(InvalidInput, match="cannot listen on 192") as found:
        _listen(Settings(data=str(tmp_path), host="192.0.2.1", port=0, insecure=True))
    assert (found.value.where, found.value.hint) == ("--host", "name an address of this machine")


def test_a_certificate_that_cannot_be_used_is_refused_before_anybody_is_listened_to(tmp_path: Path) -> None:
    wrong, missing = tmp_path / "wrong.pem", tmp_path / "missing.pem"
    wrong.write_text("no certificate")
    for certificate, key, where in (
        (wrong, wrong, "ssl_certfile"),
        (missing, wrong, "ssl_certfile"),
        (wrong, missing, "ssl_keyfile"),
    ):
        with pytest.raises(InvalidInput) as found:
            _check_certificate(Settings(data=str(tmp_path), ssl_certfile=certificate, ssl_keyfile=key))
        assert found.value.where == where
        assert str(missing if missing in (certificate, key) else wrong) in found.value.message
