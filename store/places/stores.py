"""Object stores by URL: how they are reached, what their errors mean, how often they were asked.

Endpoint, region and credentials come from the environment, by the variables and in the order of each provider's own
tools (docs/storage.md): keys, web identity, container and instance roles by obstore itself, AWS profiles by boto3.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import from_url

from bindery.store import faults

#: Schemes of URLs that a data directory may have; `s3a` is Hadoop's name for `s3`.
SCHEMES: Final = ("s3", "abfss", "gs")
#: A request is tried again after a busy or failing answer, with growing pauses, this often and no longer than this.
_RETRIES: Final[Any] = {
    "max_retries": 8,
    "retry_timeout": timedelta(seconds=30),
    "backoff": {"init_backoff": timedelta(milliseconds=50), "max_backoff": timedelta(seconds=4), "base": 2},
}
_CLIENT: Final[Any] = {"timeout": timedelta(seconds=60), "connect_timeout": timedelta(seconds=5)}
_ENDPOINTS: Final = {
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "abfss": ("AZURE_ENDPOINT", "AZURE_STORAGE_ENDPOINT"),
    "gs": ("GOOGLE_BASE_URL",),
}
#: Variables whose change means another store, or another way to it.
_TOLD_BY: Final = (
    *(name for names in _ENDPOINTS.values() for name in names),
    "AWS_ACCESS_KEY_ID",
    "AWS_PROFILE",
    "AZURE_STORAGE_ACCOUNT_NAME",
    "AZURE_STORAGE_ACCOUNT_KEY",
)
_PLAIN: Final = {"s3": "AWS_ALLOW_HTTP", "abfss": "AZURE_ALLOW_HTTP", "gs": "GOOGLE_ALLOW_HTTP"}
#: What the codes of answers mean to whoever has to do something about it.
_MEANINGS: Final = {
    "NoSuchBucket": "there is no bucket {bucket}",
    "ContainerNotFound": "there is no container {bucket}",
    "AuthenticationFailed": "the store refuses the key, or the clock of this machine",
    "AuthorizationFailure": "the key is not that of the account, or the account does not permit it",
    "AccessDenied": "the credentials do not permit it",
    "AllAccessDisabled": "the credentials do not permit it",
    "InvalidAccessKeyId": "the store does not know the access key",
    "SignatureDoesNotMatch": "the secret is not that of the access key",
    "ExpiredToken": "the credentials have expired",
    "InvalidToken": "the session token is not valid",
    "RequestTimeTooSkewed": "the clock of this machine and the store's differ by more than the store allows",
    "SlowDown": "the store asks for fewer requests, still so after several pauses",
    "PermanentRedirect": "the bucket is in another region or at another endpoint",
    "AuthorizationHeaderMalformed": "the bucket is in another region",
}
_CODE: Final = re.compile(r"<Code>(\w+)</Code>")
_STATUS: Final = re.compile(r"status code: (\d+ [A-Za-z ]+)")
#: Where machines of a provider are told their credentials: asked when nothing else has any.
_METADATA: Final = "169.254.169.254"
_UNREACHABLE: Final = ("error sending request", "client error (Connect)", "dns error", "Connection refused", "connect")

_gate: Final = threading.Lock()
_stores: dict[tuple[object, ...], Store] = {}
_requests: Counter[str] = Counter()


def requests() -> Mapping[str, int]:
    """How many requests this process has made so far, by kind: list, get, head, put, copy, delete.

    Those of deltalake, which reads whole tables and writes checkpoints, and Spark's are not among them.
    """
    with _gate:
        return dict(_requests)


class Store:
    """One bucket or container; safe between threads."""

    def __init__(self, root: str) -> None:
        """`root` is a URL without a path. Raises OSError for one that cannot be reached as it is configured."""
        self.root = root
        self._proven = False
        self._proving = threading.Lock()
        scheme = root.partition(":")[0]
        client = dict(_CLIENT)
        if os.environ.get(_PLAIN.get(scheme, ""), "").lower() in ("1", "true", "yes", "on"):
            client["allow_http"] = True  # options given here hide what obstore would find itself
        options: dict[str, Any] = {"retry_config": _RETRIES, "client_options": client}
        self._provider = _profile() if scheme == "s3" else None
        if self._provider is not None:
            options["credential_provider"] = self._provider
        with self.errors(root):
            self.client: Any = from_url(root, **options)

    @contextmanager
    def asked(self, kind: str, address: str) -> Iterator[None]:
        """Count a request, and raise what it raises as OSError; with a point of failure on each side."""
        with _gate:
            _requests[kind] += 1
        faults.reach(f"{kind}.asked", address)
        try:
            with self.errors(address):
                yield
        finally:  # a refusal is an answer
            faults.reach(f"{kind}.answered", address)

    @contextmanager
    def errors(self, address: str) -> Iterator[None]:
        """Raise what obstore raises as OSError with one line, but for refused conditions."""
        try:
            yield
        except (AlreadyExistsError, PreconditionError):
            raise
        except FileNotFoundError as error:
            if any(code in str(error) for code in ("NoSuchBucket", "ContainerNotFound")):
                raise OSError(errno.EIO, self._meaning(str(error)), address) from None
            raise FileNotFoundError(errno.ENOENT, "it is not there", address) from None
        except (BaseError, ValueError) as error:
            raise OSError(errno.EIO, self._meaning(str(error)), address) from None

    def prove(self, folder: str) -> None:
        """Make sure, once in a process, that the store refuses what the conditions of a put exclude.

        Puts of one key below the folder: a second one that asks for a key that is not there, and one that asks for
        other content than there is. Everything exactly-once stands on their refusal. Raises OSError.
        """
        with self._proving:
            if self._proven:
                return
            key = f"{folder}/.probe-{secrets.token_hex(8)}.tmp"  # as drafts are named: maintenance removes it
            address = f"{self.root}/{key}"
            try:
                with self.asked("put", address):
                    first = obstore.put(self.client, key, b"1", mode="create")
                self._must_refuse(key, "create", "a second put of a key that must not exist")
                with self.asked("put", address):
                    obstore.put(self.client, key, b"22", mode="overwrite")
                self._must_refuse(key, same_as(first["e_tag"], first["version"]), "a put that asks for older content")
            finally:
                with suppress(OSError), self.asked("delete", address):
                    obstore.delete(self.client, key)
            self._proven = True

    def delta_options(self) -> dict[str, str]:
        """What deltalake has to be told beside the environment: it knows no profiles."""
        if self._provider is None:
            return {}
        found = self._provider()
        told = {
            "AWS_ACCESS_KEY_ID": found["access_key_id"],
            "AWS_SECRET_ACCESS_KEY": found["secret_access_key"],
            "AWS_SESSION_TOKEN": found.get("token"),
        }
        return {name: value for name, value in told.items() if value}

    def _must_refuse(self, key: str, mode: Any, what: str) -> None:
        try:
            with self.asked("put", f"{self.root}/{key}"):
                obstore.put(self.client, key, b"333", mode=mode)
        except (AlreadyExistsError, PreconditionError):
            return
        raise OSError(
            errno.ENOTSUP,
            f"the store does not refuse {what}; without that nothing can be committed exactly once",
            self.root,
        )

    def _meaning(self, text: str) -> str:
        if _METADATA in text:
            return "there are no credentials in the environment, and no role of this machine gives any"
        code = _CODE.search(text)
        status = _STATUS.search(text)
        if code is not None:
            known = _MEANINGS.get(code[1])
            return f"{code[1]}: {known.format(bucket=self.root)}" if known else f"the store answers {code[1]}"
        if status is not None and status[1].startswith("403"):  # answers to a look have no more
            return "403 Forbidden: the store refuses the credentials, or the clock of this machine"
        if status is not None:
            return f"the store answers {status[1].strip()}"
        if "builder error" in text:
            return f"{self._endpoint()} is not reached without TLS unless AWS_ALLOW_HTTP=true says so"
        if any(sign in text for sign in _UNREACHABLE):
            return f"nothing answers at {self._endpoint()}"
        return text.partition("\n")[0]

    def _endpoint(self) -> str:
        names = _ENDPOINTS[self.root.partition(":")[0]]
        return next((f"{os.environ[name]} ({name})" for name in names if os.environ.get(name)), self.root)


def same_as(e_tag: object, version: object) -> Any:
    """The condition of a put that there is still the object of that tag and version."""
    return {name: value for name, value in (("e_tag", e_tag), ("version", version)) if value is not None}


def store_of(root: str) -> Store:
    """The store of that root in this process; raises OSError."""
    # connections do not survive a fork, and another environment may lead to another store
    key = (os.getpid(), root, *(os.environ.get(name) for name in _TOLD_BY))
    with _gate:
        found = _stores.get(key)
    if found is None:
        made = Store(root)
        with _gate:
            found = _stores.setdefault(key, made)
    return found


def _profile() -> Any:
    """Credentials of an AWS profile, where the environment has no keys and there is one; None otherwise."""
    environment = os.environ
    if "AWS_ACCESS_KEY_ID" in environment or "AWS_WEB_IDENTITY_TOKEN_FILE" in environment:
        return None
    file = Path(environment.get("AWS_SHARED_CREDENTIALS_FILE") or Path.home() / ".aws/credentials")
    if "AWS_PROFILE" not in environment and not file.is_file():
        return None
    try:
        from obstore.auth.boto3 import Boto3CredentialProvider  # noqa: PLC0415  # an optional package
    except ImportError:
        raise OSError(
            errno.ENOTSUP,
            "credentials of an AWS profile need boto3: install bindery[s3], or set AWS_ACCESS_KEY_ID",
            str(file),
        ) from None
    return Boto3CredentialProvider()
