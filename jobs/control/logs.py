"""The log of Bindery's processes: lines on standard error, as text or as JSON.

Each has the time (ISO 8601, UTC), the level, the logger and the message, and where they are known the stream and the
batch; a line of the access log has client, method, path and status besides. Passwords of addresses and the secrets of a
job are `***` in every line.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Final, Literal, TextIO, get_args

from bindery.jobs.control.references import masked
from bindery.router.error_text import visible
from bindery.router.errors import InvalidInput
from bindery.router.moments import iso

LogFormat = Literal["text", "json"]
#: The variable that says how processes log that read no settings.
FORMAT_VARIABLE: Final = "BINDERY_LOG_FORMAT"
_ACCESS: Final = "uvicorn.access"
#: What a record of the access log holds, in the order of the server.
_ACCESS_FIELDS: Final = ("client", "method", "path", "http_version", "status")
#: The password of an address; everything up to the last @ of its authority.
_ADDRESS: Final = re.compile(r"(://[^/?#\s:@]*:)[^/?#\s]*@")
_KNOWN: Final[ContextVar[dict[str, Any]]] = ContextVar("bindery_log", default={})  # noqa: B039  # never changed


def without_passwords(text: str) -> str:
    """The text with `***` in place of the passwords of addresses."""
    return _ADDRESS.sub(r"\1***@", text)


@contextmanager
def about(**known: Any) -> Iterator[None]:
    """Lines that this thread logs inside are about that: `stream`, `batch`."""
    token = _KNOWN.set({**_KNOWN.get(), **known})
    try:
        yield
    finally:
        _KNOWN.reset(token)


def format_of_environment() -> LogFormat:
    """The format that BINDERY_LOG_FORMAT names, text without it; raises InvalidInput for another word."""
    named = os.environ.get(FORMAT_VARIABLE) or "text"
    for known in get_args(LogFormat):
        if named == known:
            return known  # type: ignore[no-any-return]  # one of the words
    raise InvalidInput(f"no format of a log: {named!r}", where=FORMAT_VARIABLE, hint="text or json")


def set_up(form: LogFormat, *, access: bool = False, secrets: Sequence[str] = ()) -> None:
    """Log this process's warnings and errors, and what Bindery itself finds worth a line, to standard error.

    With `access` the lines of requests go to standard output. `secrets` may grow later. What an earlier call set up is
    replaced.
    """
    made: logging.Formatter = _JsonLines(secrets) if form == "json" else _TextLines(secrets)
    _hand(logging.getLogger(), _Lines("stderr", made))
    logging.getLogger("bindery").setLevel(logging.INFO)
    requests = logging.getLogger(_ACCESS)
    requests.propagate = False
    _hand(requests, _Lines("stdout", made) if access else None)
    requests.setLevel(logging.INFO)


def _hand(logger: logging.Logger, handler: logging.Handler | None) -> None:
    for earlier in list(logger.handlers):
        if isinstance(earlier, _Lines):
            logger.removeHandler(earlier)
    if handler is not None:
        logger.addHandler(handler)


class _Lines(logging.StreamHandler[TextIO]):
    """Writes to the standard stream that there is at that moment, as whoever captures it expects."""

    def __init__(self, name: Literal["stderr", "stdout"], formatter: logging.Formatter) -> None:
        logging.Handler.__init__(self)  # without a stream of its own
        self._name = name
        self.setFormatter(formatter)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]  # looked up anew each time
        """Standard error or standard output."""
        found: TextIO = getattr(sys, self._name)
        return found


class _Formatter(logging.Formatter):
    def __init__(self, secrets: Sequence[str]) -> None:
        super().__init__()
        self._secrets = secrets

    def fields(self, record: logging.LogRecord) -> dict[str, Any]:
        """What is known of a record, by name; no secret stands in it."""
        given = {name: getattr(record, name) for name in ("stream", "batch") if hasattr(record, name)}
        asked: dict[str, Any] = {}
        if record.name == _ACCESS and isinstance(record.args, tuple) and len(record.args) == len(_ACCESS_FIELDS):
            asked = dict(zip(_ACCESS_FIELDS, record.args, strict=True))
        known = {
            "time": iso(datetime.fromtimestamp(record.created, UTC), "milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **asked,
            **_KNOWN.get(),
            **given,
        }
        if record.exc_info:
            known["exception"] = self.formatException(record.exc_info)
        return {name: self._safe(value) for name, value in known.items()}

    def _safe(self, value: Any) -> Any:
        return masked(without_passwords(value), self._secrets) if isinstance(value, str) else value


class _JsonLines(_Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """One JSON object without a line end in it."""
        return json.dumps(self.fields(record), ensure_ascii=False, default=str).encode("utf-8", "replace").decode()


class _TextLines(_Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """One line, and a traceback below it where there is one."""
        known = self.fields(record)
        where = "".join(f" {name}={visible(str(known[name]))}" for name in ("stream", "batch") if name in known)
        line = f"{known['time']} {known['level']} {known['logger']}{where} {visible(known['message'])}"
        return f"{line}\n{known['exception']}" if "exception" in known else line
