"""What a file or folder of a data directory can do, wherever it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    import pyarrow.dataset as ds


@dataclass(frozen=True, slots=True)
class Stat:
    """A file: bytes, when it was made (milliseconds since 1970), and what tells it from others of its name."""

    size: int
    modified_ms: int
    identity: tuple[object, ...]


class Output(Protocol):
    """A file that is being written under a name that nothing refers to yet; what writes Parquet takes `sink`."""

    @property
    def sink(self) -> Any:
        """Where the content goes, with `write` and `tell`."""
        ...

    def finish(self, *, durable: bool = True) -> int:
        """Make the file whole, and durable unless that is left to the caller; its size in bytes."""
        ...

    def discard(self) -> None:
        """Remove what was written; raises nothing."""
        ...


class Place(ABC):
    """A file or folder, known by its address: "/"-separated text, a path or a URL.

    Everything here raises OSError, FileNotFoundError among it, and nothing else. Effects are for
    `bindery.store.effects` to call, which says what happened.
    """

    __slots__ = ("address",)

    def __init__(self, address: str) -> None:
        self.address = address

    def __str__(self) -> str:
        return self.address

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.address!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place) and self.address == other.address

    def __lt__(self, other: Place) -> bool:
        return self.address < other.address

    def __hash__(self) -> int:
        return hash(self.address)

    def __truediv__(self, name: str) -> Self:
        return type(self)(f"{self.address}/{name}")

    @property
    def name(self) -> str:
        """The last part of the address."""
        return self.address.rpartition("/")[2]

    @property
    def stem(self) -> str:
        """The name without its suffix."""
        return self.name.removesuffix(self.suffix)

    @property
    def suffix(self) -> str:
        """The end of the name from its last dot on; "" without one."""
        before, dot, after = self.name.rpartition(".")
        return f".{after}" if before and dot and after else ""

    @property
    def parent(self) -> Self:
        """The folder."""
        return type(self)(self.address.rpartition("/")[0])

    def below(self, root: Place) -> str:
        """The address relative to a folder that it lies in."""
        return self.address.removeprefix(f"{root.address}/")

    # -- looks ----------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def is_remote(self) -> bool:
        """Whether it is an object of a store: durable once it is put, and without locks and modes."""

    @abstractmethod
    def stat(self) -> Stat | None:
        """What is known of a file; None when it is not there."""

    @abstractmethod
    def exists(self) -> bool:
        """Whether there is a file, or a folder."""

    @abstractmethod
    def is_folder(self) -> bool:
        """Whether there is a folder; on an object store one is there as long as something is in it."""

    @abstractmethod
    def files(self) -> dict[str, Stat]:
        """The files in a folder by name, in order of names; none when it is not there."""

    def numbers(self, suffix: str = "") -> list[int]:
        """The numbers that files of a folder are named by, ascending; names that are none, and a suffix, stay away."""
        stems = (name.removesuffix(suffix) for name in self.files() if name.endswith(suffix))
        return sorted(int(stem) for stem in stems if stem.isdecimal())

    @abstractmethod
    def folders(self) -> list[str]:
        """The names of the folders in a folder, in order; none when it is not there."""

    @abstractmethod
    def within(self) -> dict[str, Stat]:
        """Every file in a folder, at whatever depth, by its address relative to it."""

    @abstractmethod
    def read(self, *, last: int | None = None) -> bytes | None:
        """What a file holds, or its last bytes, so many at most; None when it is not there."""

    @abstractmethod
    def read_on(self, names: Sequence[str]) -> list[bytes]:
        """What files of a folder hold, up to the first one that is not there."""

    @abstractmethod
    def known(self) -> tuple[bytes, tuple[object, ...]] | None:
        """What a file holds, and its identity; None when it is not there."""

    @abstractmethod
    def open(self) -> pa.NativeFile:
        """A file for reading, at any position; raises FileNotFoundError."""

    @abstractmethod
    def footer(self) -> pq.FileMetaData:
        """What a Parquet file says about itself; raises FileNotFoundError, and pyarrow's errors for other content."""

    @contextmanager
    def parquet(self, **options: Any) -> Iterator[pq.ParquetFile]:
        """A Parquet file for reading, with pyarrow's options; raises FileNotFoundError, and pyarrow's errors."""
        with self.open() as source, pq.ParquetFile(source, **options) as file:
            yield file

    @abstractmethod
    def fragment(self) -> AbstractContextManager[ds.Fragment]:
        """A Parquet file as what Arrow scans; raises FileNotFoundError."""

    def read_parquet(self, schema: pa.Schema | None = None) -> pa.Table:
        """A whole Parquet file, under a schema: columns that it does not have are null."""
        with self.open() as source:
            return pq.read_table(source, schema=schema, partitioning=None)

    # -- effects --------------------------------------------------------------------------------------

    @abstractmethod
    def put_new(self, content: bytes) -> tuple[object, ...] | None:
        """Make a file that must not exist yet, whole and durable; its identity, None when it exists.

        After an error the file may exist all the same.
        """

    @abstractmethod
    def replace(self, content: bytes, *, mode: int = 0o644, durable: bool = True) -> None:
        """Replace a whole file, made when missing: readers see the old one or the new one."""

    @abstractmethod
    def replace_same(self, content: bytes, identity: tuple[object, ...] | None, *, mode: int = 0o644) -> bool:
        """Replace a file that is still the one of that identity (None: not there); False when it is not.

        Of a local file that holds as far as everybody who replaces it has locked the same lock.
        """

    @abstractmethod
    def output(self) -> Output:
        """A file that is written part by part."""

    @abstractmethod
    def remove(self) -> None:
        """Remove a file, if it is there."""

    @abstractmethod
    def remove_folder(self) -> None:
        """Remove a folder with everything in it, as far as that is possible."""

    @abstractmethod
    def make_folder(self, *, mode: int = 0o777) -> None:
        """Make a folder and those above it, unless they are there."""

    @abstractmethod
    def share(self, to: Self) -> bool:
        """Give a file that never changes a second place, without its content being sent: False, and nothing done, where
        that cannot be.

        On a file system it is a link, as durable as the folder that it is in; on an object store a copy. Whichever is
        removed, the other one stays.
        """

    @abstractmethod
    def rename(self, to: Self) -> None:
        """Give a file another name, over what has it; nothing when it is gone.

        On an object store that is a copy and a removal: who dies in between leaves both.
        """
