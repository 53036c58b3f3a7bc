"""A proxy before an object store: it counts requests, and on command refuses, delays or loses them.

Faults are context managers and hold until the block ends, for the requests that they are asked to concern: `kinds`
(any of `KINDS`, default all), `keys` (a pattern as of a shell, in which `*` also matches `/`; default all), and of
those each one, each with the probability `chance` (of `random.Random(seed)`), or only the `nth` since the block began.
The client sees a server that keeps connections alive; whatever it signs reaches the store as it was.
"""

from __future__ import annotations

import asyncio
import html
import random
import re
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from types import TracebackType
from typing import Self
from urllib.parse import parse_qsl, unquote, urlsplit

#: `delete` is one key or many, `multipart` each request of an upload in parts, `bucket` what concerns a bucket itself.
KINDS = ("list", "get", "head", "put", "copy", "multipart", "delete", "bucket")

_ERRORS = {
    "InternalError": (500, "We encountered an internal error. Please try again."),
    "SlowDown": (503, "Please reduce your request rate."),
    "TooManyRequests": (429, "Please reduce your request rate."),
    "AccessDenied": (403, "Access Denied"),
    "InvalidAccessKeyId": (403, "The AWS Access Key Id you provided does not exist in our records."),
    "SignatureDoesNotMatch": (403, "The request signature we calculated does not match the signature you provided."),
    "RequestTimeTooSkewed": (403, "The difference between the request time and the server's time is too large."),
    "NoSuchBucket": (404, "The specified bucket does not exist"),
}
_HEADERS = 1 << 16  # bytes of a head at most


@dataclass(frozen=True)
class Request:
    """What a client asks for. A deletion of many objects has many keys; a listing has its prefix."""

    kind: str
    keys: tuple[str, ...]

    def matches(self, kinds: Collection[str] | None, keys: str) -> bool:
        """Whether it is of one of the kinds and one of its keys has the pattern."""
        return (kinds is None or self.kind in kinds) and any(fnmatchcase(key, keys) for key in self.keys)


class Requests(list[Request]):
    """What was asked for while somebody counted, in the order of arrival; a retry of the client is one more."""

    def by_kind(self) -> dict[str, int]:
        """How many of each kind there were; kinds that did not occur are absent."""
        return dict(Counter(request.kind for request in self))

    def of(self, kinds: Collection[str] | None = None, keys: str = "*") -> Requests:
        """Those of some kinds and keys."""
        return Requests(request for request in self if request.matches(kinds, keys))


@dataclass
class _Fault:
    """What happens to which requests. The fields after `keys` say what happens."""

    kinds: Collection[str] | None
    keys: str
    chance: float
    nth: int | None
    random: random.Random
    seen: int = 0
    error: str | None = None  # the store's answer, the request goes no further
    lost: str | None = None  # "request" or "answer": the connection breaks before or after the effect
    delay: float = 0.0
    dropped_header: str | None = None
    call: Callable[[], object] | None = None

    def concerns(self, request: Request) -> bool:
        if not request.matches(self.kinds, self.keys):
            return False
        self.seen += 1
        if self.nth is not None:
            return self.seen == self.nth
        return self.random.random() < self.chance


@dataclass
class _Head:
    """The first line and the headers of a request or an answer; names are in lower case."""

    first: str
    headers: list[tuple[str, str]] = field(default_factory=list)

    def get(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name), None)

    def __bytes__(self) -> bytes:
        lines = [self.first, *(f"{name}: {value}" for name, value in self.headers)]
        return "".join(f"{line}\r\n" for line in [*lines, ""]).encode("latin-1")


class FaultyS3:
    """The proxy; `url` is what clients are given. Safe for threads; use it as a context manager."""

    def __init__(self, target: str) -> None:
        """`target` is the address of the store, such as `http://127.0.0.1:9000`."""
        address = urlsplit(target)
        self._target = (address.hostname, address.port)
        self._lock = threading.Lock()
        self._faults: list[_Fault] = []
        self._counters: list[Requests] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="faulty-s3", daemon=True)
        self._connections: set[asyncio.Task[None]] = set()
        self.url = ""

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # what tests ask for

    @contextmanager
    def counting(self) -> Iterator[Requests]:
        """Notes each request, whatever becomes of it."""
        requests = Requests()
        with self._lock:
            self._counters.append(requests)
        try:
            yield requests
        finally:
            with self._lock:
                self._counters = [one for one in self._counters if one is not requests]

    @contextmanager
    def failing(
        self,
        code: str,
        *,
        kinds: Collection[str] | None = None,
        keys: str = "*",
        chance: float = 1.0,
        seed: int = 0,
        nth: int | None = None,
    ) -> Iterator[None]:
        """The store answers with an error of S3 (`_ERRORS` lists the codes) and does nothing."""
        if code not in _ERRORS:
            raise ValueError(f"{code} is none of {', '.join(_ERRORS)}")
        with self._fault(_Fault(kinds, keys, chance, nth, random.Random(seed), error=code)):
            yield

    @contextmanager
    def losing_answers(
        self,
        *,
        kinds: Collection[str] | None = ("put",),
        keys: str = "*",
        chance: float = 1.0,
        seed: int = 0,
        nth: int | None = None,
    ) -> Iterator[None]:
        """The store does what it is asked, then the connection breaks without an answer."""
        with self._fault(_Fault(kinds, keys, chance, nth, random.Random(seed), lost="answer")):
            yield

    @contextmanager
    def losing_requests(
        self,
        *,
        kinds: Collection[str] | None = None,
        keys: str = "*",
        chance: float = 1.0,
        seed: int = 0,
        nth: int | None = None,
    ) -> Iterator[None]:
        """The connection breaks before the store hears of it."""
        with self._fault(_Fault(kinds, keys, chance, nth, random.Random(seed), lost="request")):
            yield

    @contextmanager
    def delayed(
        self,
        seconds: float,
        *,
        kinds: Collection[str] | None = None,
        keys: str = "*",
        chance: float = 1.0,
        seed: int = 0,
        nth: int | None = None,
    ) -> Iterator[None]:
        """Requests wait before they reach the store; others overtake them."""
        with self._fault(_Fault(kinds, keys, chance, nth, random.Random(seed), delay=seconds)):
            yield

    @contextmanager
    def without_conditional_put(self) -> Iterator[None]:
        """A store that has never heard of `If-None-Match`: each put succeeds.

        Only before a store that checks no signatures, as gofakes3: the header may be part of what was signed.
        """
        with self._fault(_Fault(("put", "copy"), "*", 1.0, None, random.Random(0), dropped_header="if-none-match")):
            yield

    @contextmanager
    def before(
        self, call: Callable[[], object], *, kinds: Collection[str] | None = None, keys: str = "*", nth: int | None = 1
    ) -> Iterator[None]:
        """`call` runs, in a thread of its own, before the request goes on: a rival's turn, or a kill."""
        with self._fault(_Fault(kinds, keys, 1.0, nth, random.Random(0), call=call)):
            yield

    @contextmanager
    def _fault(self, fault: _Fault) -> Iterator[None]:
        unknown = set(fault.kinds or ()) - set(KINDS)
        if unknown:
            raise ValueError(f"{', '.join(sorted(unknown))}: none of {', '.join(KINDS)}")
        with self._lock:
            self._faults.append(fault)
        try:
            yield
        finally:
            with self._lock:
                self._faults = [one for one in self._faults if one is not fault]

    # connections

    async def _open(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=_HEADERS)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _close(self) -> None:
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        store = None
        try:
            store = await asyncio.open_connection(*self._target, limit=_HEADERS)
            while await self._exchange(reader, writer, *store):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # one of the two is gone, or the proxy ends
        finally:
            self._connections.discard(task)
            for end in [writer, *(store or ())[1:]]:
                end.transport.abort()

    async def _exchange(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        answers: asyncio.StreamReader,
        store: asyncio.StreamWriter,
    ) -> bool:
        """One request and its answer; whether the connection lives on."""
        head = await _read_head(reader)
        if (head.get("expect") or "").lower() == "100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            head.headers = [(name, value) for name, value in head.headers if name.lower() != "expect"]
        body = await _read_body(reader, head)
        request = _request(head, body)
        faults = self._note(request)
        for fault in faults:
            if fault.delay:
                await asyncio.sleep(fault.delay)
            if fault.call is not None:
                await asyncio.to_thread(fault.call)
        error = next((fault.error for fault in faults if fault.error), None)
        if error is not None:
            writer.write(_refusal(error, head))
            await writer.drain()
            return True
        lost = {fault.lost for fault in faults if fault.lost}
        if "request" in lost:
            return False
        dropped = {fault.dropped_header for fault in faults}
        head.headers = [(name, value) for name, value in head.headers if name.lower() not in dropped]
        store.write(bytes(head) + body)
        await store.drain()
        answer = await _read_head(answers)
        content = b"" if head.first.startswith("HEAD ") else await _read_body(answers, answer)
        if "answer" in lost:
            return False
        writer.write(bytes(answer) + content)
        await writer.drain()
        return (answer.get("connection") or "").lower() != "close"

    def _note(self, request: Request) -> list[_Fault]:
        with self._lock:
            for counter in self._counters:
                counter.append(request)
            return [fault for fault in self._faults if fault.concerns(request)]


async def _read_head(reader: asyncio.StreamReader) -> _Head:
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")[:-2]
    pairs = (line.partition(":") for line in lines)
    return _Head(first, [(name, value.strip()) for name, _, value in pairs])


async def _read_body(reader: asyncio.StreamReader, head: _Head) -> bytes:
    """The body as it is on the wire, chunks with their sizes."""
    if (head.get("transfer-encoding") or "").lower() != "chunked":
        return await reader.readexactly(int(head.get("content-length") or 0))
    body = b""
    while True:
        line = await reader.readuntil(b"\r\n")
        size = int(line.split(b";")[0], 16)
        body += line + await reader.readexactly(size + 2)
        if size == 0:
            return body


def _request(head: _Head, body: bytes) -> Request:
    method, target, _ = head.first.split(" ", 2)
    address = urlsplit(target)
    query = dict(parse_qsl(address.query, keep_blank_values=True))
    _, _, key = unquote(address.path).lstrip("/").partition("/")
    if "delete" in query:
        keys = re.findall(r"<Key>(.*?)</Key>", body.decode(errors="replace"), re.DOTALL)
        return Request("delete", tuple(html.unescape(key) for key in keys))
    if not key:
        listing = method == "GET" and query.keys() & {"list-type", "prefix", "delimiter"}
        return Request("list" if listing else "bucket", (query.get("prefix", ""),))
    if query.keys() & {"uploads", "uploadId"}:
        return Request("multipart", (key,))
    kind = "copy" if head.get("x-amz-copy-source") else method.lower()
    return Request(kind, (key,))


def _refusal(code: str, head: _Head) -> bytes:
    status, message = _ERRORS[code]
    resource = html.escape(head.first.split(" ")[1])
    text = f"<Error><Code>{code}</Code><Message>{message}</Message><Resource>{resource}</Resource></Error>"
    body = f'<?xml version="1.0" encoding="UTF-8"?>\n{text}'.encode()
    headers = [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))]
    answer = bytes(_Head(f"HTTP/1.1 {status} {code}", headers))
    return answer if head.first.startswith("HEAD ") else answer + body
