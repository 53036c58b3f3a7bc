"""Where everything lives below a data directory, and how names become folder names."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from bindery.router.errors import InvalidInput, Refused
from bindery.store.places import SCHEMES, at, normalised

#: Longest encoded name that is used as it is; file systems end at 255 bytes a component.
MAX_ENCODED: Final = 200
_KEPT: Final = 160
#: At the root of a copy that is not whole yet (`bindery.store.copying`).
COPY_MARK: Final = "copy.json"
_PLAIN: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-")
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
_SAFE_PATH: Final = re.compile(r"[A-Za-z0-9/._~+=@,:-]+")


def encode_name(name: str) -> str:
    """The folder name of a vhost, queue or stream: bytes outside [A-Za-z0-9-] become ~XX.

    Over 200 characters, the first 160, "~~" and 32 hexadecimal digits of the name's SHA-256. The true
    name stands in the table's properties.

    >>> encode_name("/"), encode_name("orders.eu")
    ('~2F', 'orders~2Eeu')
    """
    raw = name.encode("utf-8", "surrogatepass")
    encoded = "".join(chr(byte) if byte in _PLAIN else f"~{byte:02X}" for byte in raw)
    if len(encoded) <= MAX_ENCODED:
        return encoded
    return f"{encoded[:_KEPT]}~~{hashlib.sha256(raw).hexdigest()[:32]}"


def _folders_in(folder: str) -> list[str]:
    return [f"{folder}/{name}" for name in at(folder).folders()]


def _address(text: str) -> str:
    """A path made absolute, or a URL of an object store as it is used everywhere."""
    found = _SCHEME.match(text)
    if found is None:
        return Path(text).expanduser().absolute().as_posix()
    address = normalised(text)
    scheme, separator, rest = address.partition("://")
    bucket, _, prefix = rest.partition("/")
    if scheme not in SCHEMES or not separator or not bucket or "//" in prefix or {".", ".."} & set(prefix.split("/")):
        raise InvalidInput(
            f"the data directory {text!r} is an address that cannot be one",
            where="data directory",
            hint="give a path, such as /srv/bindery, or a URL: s3://bucket/prefix, "
            "abfss://container@account.dfs.core.windows.net/prefix, gs://bucket/prefix",
        )
    if not prefix:
        raise InvalidInput(
            f"the data directory {text!r} is a whole bucket",
            where="data directory",
            hint=f"give a prefix: {address}/bindery",
        )
    return address


@dataclass(frozen=True, slots=True)
class DataDir:
    """A data directory; every address in it is an absolute path or a URL.

    `create` tells whether what is missing may be created, the topology table for example.
    """

    root: str
    create: bool = False

    @classmethod
    def named(cls, path: str | Path) -> DataDir:
        """The data directory of that address, whether there is one or not. Raises InvalidInput as `open` does."""
        if not str(path):
            raise InvalidInput(
                "its name is empty", where="data directory", hint="name a folder; the working directory is '.'"
            )
        text = _address(str(path))
        unsafe = _SAFE_PATH.sub("", text)
        if unsafe:
            raise InvalidInput(
                f"the data directory {text!r} has {unsafe[0]!r} in its path",
                where="data directory",
                hint="use letters, digits and . _ ~ + = @ , : - only: Delta readers disagree about the rest",
            )
        return cls(text)

    @classmethod
    def open(cls, path: str | Path, create: bool = False) -> DataDir:
        """The data directory at that path or URL (`s3://bucket/prefix`; also abfss and gs).

        Raises InvalidInput when it does not exist (without `create`), when its store cannot be reached as it is
        configured, and when its address has characters that one of the Delta readers cannot open: %, blanks,
        brackets, anything outside ASCII; Refused for a copy that is not whole yet.
        """
        text = cls.named(path).root
        place = at(text)
        try:
            is_folder = place.is_folder()
            if is_folder and (place / COPY_MARK).stat() is not None:
                raise Refused(
                    f"the data directory {text!r} is a copy that is not whole yet",
                    where=f"{text}/{COPY_MARK}",
                    hint="wait for `bindery copy`, or start it again: it goes on where it ended",
                )
            if not is_folder and place.exists():
                raise InvalidInput(f"{text!r} is not a directory", where="data directory")
            if create:
                place.make_folder()
        except OSError as error:
            raise InvalidInput(
                f"{text!r} cannot be used: {error.strerror or error}",
                where="data directory",
                hint="see docs/storage.md for what the environment must say" if place.is_remote else None,
            ) from None
        if not create and not is_folder:
            raise InvalidInput(
                f"{text!r} does not exist",
                where="data directory",
                hint="name one with --data or in BINDERY_DATA; `bindery apply`, `import` and `serve` create one",
            )
        return cls(text, create)

    @property
    def machine(self) -> Path:
        """The folder for what belongs to this machine: locks and logs of the processes that run here.

        The data directory itself, or one below BINDERY_STATE (~/.local/state/bindery) for one that is a URL.
        """
        if not at(self.root).is_remote:
            return Path(self.root)
        state = os.environ.get("BINDERY_STATE") or "~/.local/state/bindery"
        return Path(state).expanduser().absolute() / encode_name(self.root)

    @property
    def topology(self) -> str:
        """The topology table."""
        return f"{self.root}/topology"

    @property
    def streams(self) -> str:
        """The table that maps each stream to its checkpoints."""
        return f"{self.root}/streams"

    @property
    def manifest(self) -> str:
        """The table with one row per committed batch."""
        return f"{self.root}/manifest"

    @property
    def access(self) -> str:
        """The folder of users and permissions."""
        return f"{self.root}/access"

    def queue(self, vhost: str, name: str) -> str:
        """The table of a queue."""
        return f"{self.root}/queues/{encode_name(vhost)}/{encode_name(name)}"

    def unroutable(self, vhost: str) -> str:
        """The table of a vhost's unroutable messages."""
        return f"{self.root}/unroutable/{encode_name(vhost)}"

    def routed(self, kind: str, vhost: str, name: str) -> str:
        """The table that rows of a kind go to: of a queue, of a stream, or of unroutable messages."""
        if kind == "journal":
            return self.journal(name)
        if kind == "dedup":
            return self.dedup(name)
        return self.queue(vhost, name) if kind == "queue" else self.unroutable(vhost)

    def journal(self, stream: str) -> str:
        """The journal of a stream."""
        return f"{self.root}/journal/{encode_name(stream)}"

    def journals(self) -> list[str]:
        """Where journals may be, whether they are tables or not."""
        return _folders_in(f"{self.root}/journal")

    def dedup(self, stream: str) -> str:
        """The table of what a stream has routed, by which repeats are known."""
        return f"{self.root}/dedup/{encode_name(stream)}"

    def dedups(self) -> list[str]:
        """Where such tables may be, whether they are tables or not."""
        return _folders_in(f"{self.root}/dedup")

    def queue_tables(self) -> list[str]:
        """Where tables of queues may be, whether they are tables or not."""
        return [path for vhost in self.vhost_tables("queues") for path in _folders_in(vhost)]

    def vhost_tables(self, kind: Literal["queues", "unroutable", "inbox"]) -> list[str]:
        """The folders of vhosts in one of the folders that have one for each."""
        return _folders_in(f"{self.root}/{kind}")

    def inbox(self, vhost: str) -> str:
        """The table to which a vhost's bulk ingestion appends."""
        return f"{self.root}/inbox/{encode_name(vhost)}"

    def checkpoint(self, stream: str) -> str:
        """The folder of a stream's Spark checkpoint."""
        return f"{self.root}/checkpoints/{encode_name(stream)}"

    def pins(self, app_id: str) -> str:
        """The folder of the batch pins of one stream and checkpoint."""
        return f"{self.root}/pins/{encode_name(app_id)}"
