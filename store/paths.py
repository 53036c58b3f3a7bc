"""Where everything lives below a data directory, and how names become folder names."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bindery.router.errors import InvalidInput

#: Longest encoded name that is used as it is; file systems end at 255 bytes a component.
MAX_ENCODED: Final = 200
_KEPT: Final = 160
_PLAIN: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-")
_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
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


@dataclass(frozen=True, slots=True)
class DataDir:
    """A data directory; every path in it is absolute.

    `create` tells whether what is missing may be created, the topology table for example.
    """

    root: str
    create: bool = False

    @classmethod
    def open(cls, path: str | Path, create: bool = False) -> DataDir:
        """The data directory at that path.

        Raises InvalidInput when it does not exist (without `create`), is an address (`s3a://…`, `file:/…`), or
        when its path has characters that one of the Delta readers cannot open: %, blanks, brackets,
        anything outside ASCII.
        """
        if _ADDRESS.match(str(path)):
            raise InvalidInput(
                f"the data directory {str(path)!r} is an address, and only a folder of a file system can be one",
                where="data directory",
                hint="give its path, such as /srv/bindery; a store elsewhere must be mounted",
            )
        absolute = Path(path).expanduser().absolute()
        text = absolute.as_posix()
        unsafe = _SAFE_PATH.sub("", text)
        if unsafe:
            raise InvalidInput(
                f"the data directory {text!r} has {unsafe[0]!r} in its path",
                where="data directory",
                hint="use letters, digits and . _ ~ + = @ , : - only: Delta readers disagree about the rest",
            )
        if absolute.exists() and not absolute.is_dir():
            raise InvalidInput(f"{text!r} is not a directory", where="data directory")
        if create:
            absolute.mkdir(parents=True, exist_ok=True)
        elif not absolute.exists():
            raise InvalidInput(
                f"no data directory {text!r}", where="data directory", hint="`bindery import` and `serve` create one"
            )
        return cls(text, create)

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
        """The table that routed rows of a kind go to: of a queue by that name, or of unroutable messages."""
        return self.queue(vhost, name) if kind == "queue" else self.unroutable(vhost)

    def inbox(self, vhost: str) -> str:
        """The table to which a vhost's bulk ingestion appends."""
        return f"{self.root}/inbox/{encode_name(vhost)}"

    def checkpoint(self, stream: str) -> str:
        """The folder of a stream's Spark checkpoint."""
        return f"{self.root}/checkpoints/{encode_name(stream)}"

    def pins(self, app_id: str) -> str:
        """The folder of the batch pins of one stream and checkpoint."""
        return f"{self.root}/pins/{encode_name(app_id)}"
