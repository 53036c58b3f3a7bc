"""The shadow: a tap is laid, what it brings is compared until there is enough of it, and the tap is removed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

import pika
from pika import exceptions

from bindery.jobs.draining.broker import Broker, raw_properties, reason_of
from bindery.jobs.shadowing.gathering import Gathering
from bindery.jobs.shadowing.look import Look
from bindery.jobs.shadowing.tally import Tally
from bindery.jobs.shadowing.tap import Management, ShadowFailed, Tap
from bindery.router.errors import BinderyError, InvalidInput

#: Seconds between two looks at the topology; where looking takes long, it takes a twentieth of the time at most.
_INTERVAL: Final = 2.0
_SHARE: Final = 20
#: Seconds after which a mark that has not come is given up, and those of one wait for what comes.
_PATIENCE: Final = 30.0
_WAIT: Final = 0.1


class Shadow:
    """Shadows one vhost of a broker; `run` in one thread, `stop` from anywhere, a signal handler included.

    It ends after so many messages or seconds, or when it is stopped. `compat` is the compatibility mode under which
    messages are routed here. `report` is called after each wait.
    """

    def __init__(
        self,
        broker: Broker,
        management: Management,
        *,
        messages: int | None = None,
        seconds: float | None = None,
        compat: str | None = None,
        report: Callable[[Tally], None] = lambda _tally: None,
    ) -> None:
        self.tally = Tally()
        self.address = broker.address
        self.compat = compat
        self.tap = Tap(management, broker.address.vhost, compat=compat)
        #: the nodes of the cluster
        self.nodes: list[str] = []
        #: looks at the topology, and those that found another one than before; the last one
        self.looks = self.changes = 0
        self.look: Look | None = None
        #: when it began and ended, in seconds since 1970
        self.began = self.ended = 0.0
        self._broker = broker
        self._management = management
        self._messages = messages
        self._seconds = seconds
        self._report = report
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Compare what has come, remove the tap, and end."""
        self._stopping.set()

    def run(self) -> None:
        """Shadow until there is enough; `tally` has what was found, after an error too.

        Raises InvalidInput for what the broker refuses, ShadowFailed for one that cannot be reached or is lost.
        """
        self.began = time.time()
        try:
            self.nodes = self._management.nodes()
            first = self._looked()
            with raw_properties(), self._broker.connection() as connection:
                try:
                    self.tap.lay(connection)
                    self._compare(connection, Gathering(self.tally, first, self._messages))
                finally:
                    self.tap.remove()
        except exceptions.AMQPError as error:
            raise self._meant(error) from None
        except BinderyError as error:
            if error.exit_code == ShadowFailed.exit_code:
                raise
            raise ShadowFailed(error.message, where=error.where, hint=error.hint) from None
        finally:
            self.ended = time.time()

    def _compare(self, connection: pika.BlockingConnection, gathering: Gathering) -> None:
        """Gather and compare until there is enough."""
        begun = marked = time.monotonic()
        pause = _INTERVAL
        last: int | None = None
        while last is None or gathering.is_waiting:
            connection.process_data_events(_WAIT)
            self._take(gathering)
            self._report(self.tally)
            now = time.monotonic()
            if gathering.is_waiting and now < marked + _PATIENCE:
                continue
            if last is not None:
                gathering.give_up()
                return
            is_over = self._seconds is not None and now >= begun + self._seconds
            if self._stopping.is_set() or is_over or gathering.is_enough:
                last = gathering.put + 1
            if last is not None or gathering.is_full or now >= marked + pause:
                self.tap.mark(gathering.put + 1)
                gathering.looked(self._looked())
                if not self.tap.traces():
                    raise ShadowFailed("somebody turned the firehose off", where="--rabbitmq")
                marked = time.monotonic()
                pause = max(_INTERVAL, _SHARE * (marked - now))

    def _take(self, gathering: Gathering) -> None:
        arrived = self.tap.arrived
        while arrived:
            one = arrived.popleft()
            if isinstance(one, int):
                gathering.came(one)
            else:
                gathering.take(one.encoded, one.size)
        self.tap.acknowledge()

    def _looked(self) -> Look:
        before, found = self.look, self.tap.look()
        self.look = found
        self.looks += 1
        self.changes += before is not None and found.carried is not before.carried
        return found

    def _meant(self, error: exceptions.AMQPError) -> BinderyError:
        """What a refusal, or a connection that ends, means."""
        refusal = self._broker.refusal(error, self.tap.name)
        if refusal is not None:
            return InvalidInput(refusal.message, where="--rabbitmq", hint=refusal.hint)
        doing = f"lost {self._broker.address}" if self.tap.is_laid else f"cannot reach {self._broker.address}"
        return ShadowFailed(f"{doing}: {reason_of(error)}", where="--rabbitmq")
