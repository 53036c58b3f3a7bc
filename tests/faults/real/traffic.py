"""Everybody who works with the installation all the while: a producer, publishers, an administrator."""

from __future__ import annotations

import base64
import http.client
import json
import random
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from tests.faults.real.ledger import KINDS, WORDS, Ledger, Sent

USER, PASSWORD = "faults", "faults"
_AUTHORIZATION: Final = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
#: What the job routes.
STREAM: Final = "orders"
#: Queues that stay, and queues and exchanges that come and go.
PERMANENT: Final = tuple(f"p{number}" for number in range(6))
TRANSIENT: Final = tuple(f"t{number}" for number in range(4))
PASSING: Final = ("x0", "x1")
#: Seconds of freshness of the queues that stay, shuffled for each run: some get their copies at once, some by flushes.
FRESHNESS: Final = (None, None, None, 1, 1, 2, 2)
#: Seconds between two works of each, on average.
PRODUCE, PUBLISH, CHANGE = 0.5, 0.8, 0.4


class Address:
    """Where the service listens, while it does."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._port: int | None = None

    def set(self, port: int | None) -> None:
        """The service has started on a port, or has gone."""
        with self._changed:
            self._port = port
            self._changed.notify_all()

    def wait(self, seconds: float = 0.2) -> int | None:
        """The port, waited for."""
        with self._changed:
            self._changed.wait_for(lambda: self._port is not None, seconds)
            return self._port


class NotSent(Exception):
    """Nothing listened: the request has reached nobody."""


class NoAnswer(Exception):
    """The request may have been carried out."""


class Connection:
    """A connection to the service that is kept, and made again when the service is another one."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._port: int | None = None
        self._http: http.client.HTTPConnection | None = None

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and JSON of the answer; raises NotSent or NoAnswer."""
        port = self._address.wait()
        if port is None:
            raise NotSent
        if self._http is None or port != self._port:
            self.close()
            self._port, self._http = port, http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        try:
            if self._http.sock is None:
                self._http.connect()
        except OSError:
            self.close()
            raise NotSent from None
        try:
            content = None if body is None else json.dumps(body).encode()
            self._http.request(method, "/api" + path, content, {"authorization": _AUTHORIZATION})
            answer = self._http.getresponse()
            raw = answer.read()
        except (OSError, http.client.HTTPException):
            self.close()
            raise NoAnswer from None
        return answer.status, json.loads(raw) if raw else None

    def close(self) -> None:
        """Close what is open."""
        if self._http is not None:
            self._http.close()
        self._http = None


class Worker(ABC, threading.Thread):
    """Somebody who does one thing again and again, at random intervals, until told to end."""

    def __init__(self, name: str, seed: str, ledger: Ledger, mean: float) -> None:
        super().__init__(name=name, daemon=True)
        self.rng = random.Random(f"{seed} {name}")
        self.ledger = ledger
        self.error: BaseException | None = None
        self._mean = mean
        self._end = threading.Event()

    @abstractmethod
    def work(self) -> None:
        """Do it once."""

    def run(self) -> None:
        """See the class."""
        try:
            while not self._end.wait(self.rng.uniform(0, 2 * self._mean)):
                self.work()
        except BaseException as error:
            self.error = error
            raise

    def end(self) -> None:
        """Do it no more; raises what ended it early."""
        self._end.set()
        self.join()
        if self.error is not None:
            raise self.error


class Producer(Worker):
    """Puts files of records into a folder; each appears whole. One record of a hundred is no JSON."""

    def __init__(self, seed: str, ledger: Ledger, folder: Path) -> None:
        super().__init__("producer", seed, ledger, PRODUCE)
        self._folder = folder
        self._files = 0

    def work(self) -> None:
        lines, sent, broken = [], {}, []
        for number in range(self.rng.randint(1, 50)):
            one = Sent.random(self.rng, f"s{self._files}-{number}")
            record = {"id": one.id, "exchange": one.exchange, "key": one.key, "number": one.number, "kind": one.kind}
            line = json.dumps(record)
            if self.rng.random() < 0.01:
                lines.append(line[:-2])
                broken.append(one.id)
            else:
                lines.append(line)
                sent[one.id] = one
        draft = self._folder / f".{self._files}.json"
        draft.write_text("".join(line + "\n" for line in lines))
        with self.ledger.lock:
            self.ledger.streamed |= sent
            self.ledger.broken.update(broken)
        draft.rename(self._folder / f"{self._files}.json")
        self._files += 1


class RestWorker(Worker):
    """Somebody who does it by REST, one request after the other, over a connection that is kept until the end."""

    def __init__(self, name: str, seed: str, ledger: Ledger, mean: float, address: Address) -> None:
        super().__init__(name, seed, ledger, mean)
        self._connection = Connection(address)

    def run(self) -> None:
        try:
            super().run()
        finally:
            self._connection.close()


class Publisher(RestWorker):
    """Publishes messages by REST."""

    def __init__(self, number: int, seed: str, ledger: Ledger, address: Address) -> None:
        super().__init__(f"publisher {number}", seed, ledger, PUBLISH, address)
        self._prefix = f"r{number}"
        self._messages = 0

    def work(self) -> None:
        one = Sent.random(self.rng, f"{self._prefix}-{self._messages}")
        with self.ledger.lock:
            self.ledger.published[one.id] = one
        try:
            status, answer = self._connection.call("POST", f"/exchanges/%2F/{one.exchange}/publish", one.publication)
        except NotSent:
            with self.ledger.lock:
                del self.ledger.published[one.id]
            return
        except NoAnswer:
            status = 0
        self._messages += 1
        with self.ledger.lock:
            if status == 200:
                self.ledger.routed[one.id] = answer["routed"]
            elif status:
                self.ledger.errors["publish", status, _reason(answer)] += 1


class Administrator(RestWorker):
    """Changes the topology: bindings, queues, exchanges, diverts, policies; what catches everything stays."""

    def __init__(self, seed: str, ledger: Ledger, address: Address) -> None:
        super().__init__("administrator", seed, ledger, CHANGE, address)
        self._changes: list[tuple[Callable[[], None], int]] = [
            (self._bind, 8),
            (self._unbind, 6),
            (self._queue, 3),
            (self._exchange, 2),
            (self._divert, 2),
            (self._policy, 2),
            (self._freshness, 2),
        ]

    def work(self) -> None:
        (change,) = self.rng.choices(*zip(*self._changes, strict=True))
        change()

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        try:
            status, answer = self._connection.call(method, path, body)
        except (NotSent, NoAnswer):
            return None
        with self.ledger.lock:
            if status >= 500:
                self.ledger.errors[method, status, _reason(answer)] += 1
            elif method != "GET":
                self.ledger.changes["made" if status < 400 else "refused"] += 1
        return answer

    def _ends(self) -> tuple[str, str, str]:
        """Source, kind and name of a destination."""
        queue = self.rng.choice([*PERMANENT, *TRANSIENT])
        match self.rng.randrange(10):
            case 0 | 1:
                return "loose", "q", self.rng.choice(PERMANENT)
            case 2:
                return "head", "q", queue
            case 3:
                return "spread", "q", queue
            case 4:
                return "flow", "e", self.rng.choice(PASSING)
            case 5:
                return self.rng.choice(PASSING), "q", queue
        return "flow", "q", queue

    def _bind(self) -> None:
        source, kind, destination = self._ends()
        key = ".".join(self.rng.choice([*WORDS, "*", "#"]) for _ in range(self.rng.randint(1, 3)))
        arguments: dict[str, Any] = {}
        if source == "head":
            arguments = {"x-match": "any", "kind": self.rng.choice(KINDS)}
        if source == "loose":
            key = self.rng.choice(WORDS)
        if self.rng.random() < 0.3:
            arguments["x-filter-jms-selector"] = f"number > {self.rng.randrange(1000)}"
        path = f"/bindings/%2F/e/{source}/{kind}/{destination}"
        self._call("POST", path, {"routing_key": key, "arguments": arguments})

    def _unbind(self) -> None:
        source, kind, destination = self._ends()
        path = f"/bindings/%2F/e/{source}/{kind}/{destination}"
        found = self._call("GET", path)
        if isinstance(found, list) and found:
            key = self.rng.choice(found)["properties_key"]
            self._call("DELETE", f"{path}/{quote(key, safe='')}")

    def _queue(self) -> None:
        self._toggle(f"/queues/%2F/{self.rng.choice(TRANSIENT)}", queue_of(self.rng.choice(FRESHNESS)))

    def _exchange(self) -> None:
        self._toggle(f"/exchanges/%2F/{self.rng.choice(PASSING)}", {"type": "topic"})

    def _divert(self) -> None:
        self._toggle(
            "/diverts/%2F/aside", {"source": "flow", "destination": "rescue", "filter": f"kind = '{KINDS[0]}'"}
        )

    def _policy(self) -> None:
        definition = {"alternate-exchange": "rescue"}
        self._toggle("/policies/%2F/rescue", {"pattern": "^loose$", "apply-to": "exchanges", "definition": definition})

    def _freshness(self) -> None:
        """Queues without a freshness of their own are deferred, or get their copies at once again."""
        definition = {"freshness": 1}
        self._toggle(
            "/policies/%2F/fresh", {"pattern": "^(p[0-2]|t.)$", "apply-to": "queues", "definition": definition}
        )

    def _toggle(self, path: str, body: Any) -> None:
        if self.rng.random() < 0.5:
            self._call("PUT", path, body)
        else:
            self._call("DELETE", path)


def queue_of(freshness: int | None) -> dict[str, Any]:
    """The body that declares a queue of that freshness (seconds); None is for one that gets its copies at once."""
    return {"durable": True, "arguments": {} if freshness is None else {"x-freshness": freshness}}


def _reason(answer: Any) -> str:
    return str(answer.get("reason") if isinstance(answer, dict) else answer)[:200]
