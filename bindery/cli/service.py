"""The jobs of a running service: requests to it, and what its refusals mean to whoever typed the command."""

from __future__ import annotations

import base64
import http.client
import json
import os
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote, unquote

from bindery.cli.urls import leaves_this_machine, service_url
from bindery.jobs.control.config import errors_of
from bindery.jobs.control.forward import forward_errors, is_forward
from bindery.jobs.control.references import without_secrets
from bindery.router.errors import BinderyError, CommitUnknown, InvalidInput, NotFound

T = TypeVar("T")
USER_VARIABLE: Final = "BINDERY_USER"
PASSWORD_VARIABLE: Final = "BINDERY_PASSWORD"  # noqa: S105  # the variable's name
#: Seconds to connect, and seconds without a byte of an answer.
_CONNECT: Final = 10.0
_ANSWER: Final = 60.0
#: Seconds in which a service is asked what became of a change whose answer was lost, and between two questions.
_ASK_FOR: Final = 15.0
_ASK_EVERY: Final = 0.5
#: Bytes of an answer.
_ANSWER_LIMIT: Final = 64 * 2**20
_EXAMPLE: Final = "such as http://127.0.0.1:15672"


class ServiceFailed(BinderyError):
    """A service that cannot be reached, or does not do what it was asked."""

    code = "service_failed"


class JobRefused(BinderyError):
    """The job is in a state in which that cannot be done."""

    code = "job_conflict"


class _AnswerLost(Exception):
    """The request was sent, and nobody knows what became of it."""


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    content: Any


class ServiceJobs:
    """The jobs of the service at a URL; raises InvalidInput for one that is none, or a file that is no certificate."""

    def __init__(self, url: str, ca_file: Path | None = None) -> None:
        parts, host, port = service_url(url, what="a service", where="--service", example=_EXAMPLE)
        self._host, self._port = host, port
        self._prefix = quote(parts.path.rstrip("/").removesuffix("/api"), safe="/%")
        shown = f"[{self._host}]" if ":" in self._host else self._host
        self.name = f"{parts.scheme}://{shown}{'' if port is None else f':{port}'}{self._prefix}"
        self._tls = _trusting(ca_file) if parts.scheme == "https" else None
        if ca_file is not None and self._tls is None:
            raise InvalidInput("certificates are for https://", where="--ca-file")
        self._headers = {"accept": "application/json", **_credentials(parts.username, parts.password)}

    @property
    def is_open(self) -> bool:
        """Whether credentials travel unencrypted through a network."""
        return self._tls is None and "authorization" in self._headers and leaves_this_machine(self._host)

    def streams(self) -> list[str]:
        """The streams that have a job."""
        return [item["stream"] for item in self.items()]

    def items(self) -> list[dict[str, Any]]:
        """Every job, by stream."""
        found = self._get("/jobs")
        if not isinstance(found, list) or not all(isinstance(item, dict) and "stream" in item for item in found):
            raise self._stranger("its answer lists no jobs")
        return found

    def item(self, stream: str) -> dict[str, Any]:
        """One job; raises NotFound."""
        found = self._get(_path(stream))
        if not isinstance(found, dict) or "state" not in found:
            raise self._stranger("its answer is no job")
        return found

    def state(self, stream: str) -> tuple[str, int | None]:
        """The state of a job and the number of its newest run; raises NotFound."""
        item = self.item(stream)
        return item["state"], item.get("run", {}).get("number")

    def log(self, stream: str, run: int | None, *, lines: int, after: int | None = None) -> dict[str, Any]:
        """Lines of a run's log, and where they end; raises NotFound without one."""
        asked = {"lines": lines, "run": run, "after": after}
        query = "&".join(f"{name}={value}" for name, value in asked.items() if value is not None)
        found: dict[str, Any] = self._get(f"{_path(stream)}/logs?{query}")
        return found

    def errors(self, document: Mapping[str, Any]) -> list[InvalidInput]:
        """What is wrong with the keys of a document; what it may ask for is for the service to say."""
        return forward_errors(document) if is_forward(document) else errors_of(without_secrets(document))

    def submit(self, document: Mapping[str, Any], *, new_epoch: bool = False) -> str:
        """Start the job of a document; gives its stream.

        Raises InvalidInput, JobRefused, ServiceFailed, and CommitUnknown when the answer was lost and the service does
        not say that it has started the job.
        """
        stream: str = document["stream"]
        before = self._run(stream)[0]

        def started() -> str | None:
            number, known = self._run(stream)
            return stream if number > before and known == document else None

        done = f"the job of stream {stream!r} was submitted"
        self._change("POST", f"/jobs?new_epoch={str(new_epoch).lower()}", document, started, done)
        return stream

    def restart(self, stream: str, *, new_epoch: bool = False) -> None:
        """Start a job again, after its end if it runs; raises as `submit` does."""
        before = self._run(stream)[0]

        def started() -> bool | None:
            return self._run(stream)[0] > before or None

        done = f"the job of stream {stream!r} was started again"
        self._change("POST", f"{_path(stream)}/restart?new_epoch={str(new_epoch).lower()}", None, started, done)

    def stop(self, stream: str, *, force: bool = False) -> bool:
        """Ask a job to end after the batch that is running, or kill it; True, as the service sees to it."""

        def stopped() -> bool | None:
            return self.item(stream)["state"] in ("stopping", "stopped", "failed") or None

        done = f"the job of stream {stream!r} was asked to end"
        self._change("POST", f"{_path(stream)}/stop?force={str(force).lower()}", None, stopped, done)
        return True

    def forget(self, stream: str) -> None:
        """Forget a job that does not run; raises NotFound and JobRefused."""

        def forgotten() -> bool | None:
            return stream not in self.streams() or None

        self._change("DELETE", _path(stream), None, forgotten, f"the job of stream {stream!r} was forgotten")

    def _run(self, stream: str) -> tuple[int, Any]:
        """The number of the newest run of a job, 0 without any, and its document."""
        try:
            item = self.item(stream)
        except NotFound:
            return 0, None
        return item.get("run", {}).get("number", 0), item.get("document")

    # -- requests --------------------------------------------------------------------------------------

    def _get(self, path: str) -> Any:
        try:
            return self._call("GET", path).content
        except _AnswerLost as error:
            hint = "try again" if self._tls else "try again; the address of a service with a certificate is https://"
            raise ServiceFailed(f"{self.name} did not answer: {error}", hint=hint) from None

    def _change(self, method: str, path: str, body: Any, done: Callable[[], T | None], what: str) -> None:
        """Make a change, once; when its answer is lost, ask the service whether it was made."""
        try:
            self._call(method, path, body)
            return
        except _AnswerLost as error:
            reason = str(error)
        end = time.monotonic() + _ASK_FOR
        while True:
            try:
                if done() is not None:
                    return
            except (ServiceFailed, NotFound):
                pass  # it may be on its way up again
            if time.monotonic() > end:
                break
            time.sleep(_ASK_EVERY)
        raise CommitUnknown(
            f"nobody knows whether {what}: {self.name} took the request and did not answer ({reason})",
            hint="look with `bindery jobs list` before you do it again",
        )

    def _call(self, method: str, path: str, body: Any = None) -> _Answer:
        """One request, sent once; raises what its refusal means, and _AnswerLost when the answer did not come."""
        content = None if body is None else json.dumps(body).encode()
        connection = self._connected()
        try:
            connection.request(method, f"{self._prefix}/api{path}", content, self._headers)
            response = connection.getresponse()
            raw = response.read(_ANSWER_LIMIT)
        except TimeoutError:
            raise _AnswerLost(f"no answer within {_ANSWER:.0f} s") from None
        except (OSError, http.client.HTTPException) as error:
            raise _AnswerLost(str(error) or type(error).__name__) from None
        finally:
            connection.close()
        status = response.status
        try:
            said = json.loads(raw) if raw else None
        except ValueError:
            said = None
        refused = said if isinstance(said, dict) and "error" in said else {}
        if status in (502, 504) or refused.get("error") == "commit_unknown":
            raise _AnswerLost(f"status {status}" if not refused else str(refused["reason"]))
        if not 200 <= status < 300:
            # that there are no jobs at all is nothing that a service says
            known = refused if status != 404 or path.startswith("/jobs/") else {}
            raise self._refusal(status, known, response.headers.get("location"))
        if method == "GET" and said is None:
            raise self._stranger("its answer is no JSON")
        return _Answer(status, said)

    def _connected(self) -> http.client.HTTPConnection:
        """A connection that is up; until it is, nothing was sent."""
        connection = (
            http.client.HTTPConnection(self._host, self._port, timeout=_CONNECT)
            if self._tls is None
            else http.client.HTTPSConnection(self._host, self._port, timeout=_CONNECT, context=self._tls)
        )
        try:
            connection.connect()
        except ssl.SSLCertVerificationError as error:
            connection.close()
            raise ServiceFailed(
                f"{self.name}: its certificate is not trusted: {error.verify_message}",
                hint="name its authority's certificate with --ca-file PEM, and the host as the certificate does",
            ) from None
        except ssl.SSLError as error:
            connection.close()
            raise ServiceFailed(
                f"{self.name}: no TLS connection: {error.reason or error}",
                hint="a service without a certificate is http://",
            ) from None
        except (OSError, UnicodeError) as error:
            connection.close()
            if isinstance(error, UnicodeError):
                raise InvalidInput("no name of a host", where="--service", hint=_EXAMPLE) from None
            why = f"nothing within {_CONNECT:.0f} s" if isinstance(error, TimeoutError) else error.strerror or error
            raise ServiceFailed(
                f"{self.name} cannot be reached: {why}",
                hint="is it started (`bindery serve`), and is that its host and port?",
            ) from None
        connection.sock.settimeout(_ANSWER)
        return connection

    def _refusal(self, status: int, refused: Mapping[str, Any], location: str | None) -> BinderyError:
        """What an answer that is none of success means."""
        reason = refused.get("reason")
        said = reason if isinstance(reason, str) else json.dumps(reason, ensure_ascii=False)
        if status == 401:
            if refused.get("error") == "not_authorised":
                return InvalidInput(
                    f"{self.name}: this user may not do that",
                    where=USER_VARIABLE,
                    hint="jobs are for users with the tag administrator; with the tag monitoring they can be seen",
                )
            wrong = "authorization" in self._headers
            return InvalidInput(
                f"{self.name}: {'the user or the password is wrong' if wrong else 'it asks who you are'}",
                where=USER_VARIABLE,
                hint=f"set {USER_VARIABLE} and {PASSWORD_VARIABLE}",
            )
        if 300 <= status < 400:
            return self._stranger(f"it leads to {location}")
        if not refused:
            return self._stranger(f"it answers {status}")
        if status == 400:
            return InvalidInput(said)
        if status == 404:
            return NotFound(
                "there is no such job" if said == "Not Found" else said, where="job", hint="see `bindery jobs list`"
            )
        if status == 409:
            return JobRefused(said, where="job")
        if status == 429:
            return ServiceFailed(f"{self.name}: {said}", hint="wait half a minute")
        return ServiceFailed(f"{self.name}: {said}", hint="the log of the service says more")

    def _stranger(self, why: str) -> ServiceFailed:
        return ServiceFailed(
            f"{self.name} does not answer as a Bindery service does: {why}",
            hint="name the address that `bindery serve` says it listens on",
        )


def _path(stream: str) -> str:
    return f"/jobs/{quote(stream, safe='')}"


def _credentials(user: str | None, password: str | None) -> dict[str, str]:
    """The header of the URL's user, or of the one in the environment; raises InvalidInput for half of one."""
    if user is not None:
        user, password = unquote(user), None if password is None else unquote(password)
    else:
        user = os.environ.get(USER_VARIABLE) or None
    if password is None:
        password = os.environ.get(PASSWORD_VARIABLE)
    if user is None:
        if password is not None:
            raise InvalidInput(f"{PASSWORD_VARIABLE} is set, and no user", where=USER_VARIABLE, hint="set both")
        return {}
    if password is None:
        raise InvalidInput(f"no password for user {user!r}", where=PASSWORD_VARIABLE, hint="set it in the environment")
    return {"authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def _trusting(ca_file: Path | None) -> ssl.SSLContext:
    """TLS that trusts the authorities of a file, or of the system; raises InvalidInput."""
    try:
        return ssl.create_default_context(cafile=ca_file)
    except ssl.SSLError as error:
        why = error.reason or str(error)
    except OSError as error:
        why = error.strerror or str(error)
    raise InvalidInput(
        f"cannot use {ca_file}: {why}", where="--ca-file", hint="a file of certificates in PEM"
    ) from None
