"""`bindery serve`: the socket that it listens on."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

from bindery.api.settings import Settings
from bindery.cli.serve import _listen


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
