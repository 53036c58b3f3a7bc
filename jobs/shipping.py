"""Functions on their way to the executors, which must run the same Bindery as the driver.

An executor imports what its image has or what `--py-files` brought. Another Bindery there could route by other rules,
or fail with the traceback of an unpickler. So a function travels sealed, behind one that needs no Bindery: it compares
fingerprints before anything is unpickled. No Spark job is added.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING, Any, Final

from pyspark import cloudpickle

import bindery
from bindery.router.errors import Refused

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Row
    from pyspark.sql.types import StructType

#: Parts of the package that tasks import.
_PARTS: Final = ("analytics", "jobs", "router", "store")
_SOURCES: Final = (".py", ".lark")


class OtherCode(Refused):
    """An executor has another Bindery than the driver, none, or lacks a library; nothing of the batch was committed."""

    code = "other_code"


@cache
def fingerprint() -> str:
    """The version of this Bindery and twelve digits of its sources' SHA-256, alike in a folder and in a zip."""
    digest = hashlib.sha256()
    for part in _PARTS:
        for name, content in _sources(files(bindery) / part, part):
            digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return f"{bindery.__version__} ({digest.hexdigest()[:12]})"


def _sources(folder: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.name.startswith("."):
            continue  # what an editor or a notebook keeps beside the sources
        if entry.is_dir():
            yield from _sources(entry, f"{path}/{entry.name}")
        elif entry.name.endswith(_SOURCES):
            yield f"{path}/{entry.name}", entry.read_bytes()


class _Sealed:
    """A function that arrives as bytes, so that whoever gets it need not be able to import it."""

    def __init__(self, function: object) -> None:
        self._function = function

    def __reduce__(self) -> tuple[type[bytes], tuple[bytes]]:
        return bytes, (cloudpickle.dumps(self._function),)  # type: ignore[no-untyped-call]


def shipped(
    function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], *, gives_results: bool = True
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function of `mapInArrow`, to run by executors with the driver's Bindery only.

    Others give a row that `results` turns into OtherCode; without `gives_results` the task fails with that line.
    """
    own = fingerprint()
    sealed: Any = _Sealed(function)

    # A nested function is pickled by value; so it must not refer to anything of this module.
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import json  # noqa: PLC0415
        import pickle  # noqa: PLC0415
        import socket  # noqa: PLC0415

        import pyarrow  # noqa: PLC0415

        function = None
        try:
            from bindery.jobs.shipping import fingerprint  # noqa: PLC0415

            found = f"Bindery {fingerprint()}"
            if found == f"Bindery {own}":
                function = pickle.loads(sealed)  # noqa: S301  # what the driver has sent
        except ImportError as error:
            name = error.name or str(error)
            if name == "bindery":
                found = "no Bindery"
            elif name.startswith("bindery."):
                found = f"an older Bindery, without {name}"
            else:
                found = f"no module {name!r}"
        if function is not None:
            yield from function(batches)
            return
        line = f"the executor on {socket.gethostname()} has {found}, the driver has Bindery {own}"
        if not gives_results:
            raise RuntimeError(line)
        yield pyarrow.RecordBatch.from_pydict({"result": [json.dumps({"other_code": line})]})

    return run


def shipped_column(function: Callable[[Iterator[Any]], Iterator[pa.Array]], kind: StructType | str) -> Any:
    """An Arrow UDF: `function` gets tuples of columns, and gives as many values; `kind` is their type. See `shipped`.

    It is none over iterators: of those Spark evaluates each in a process of its own.
    """
    import pyarrow  # noqa: PLC0415
    from pyspark.sql.pandas.functions import arrow_udf  # noqa: PLC0415  # nothing that executors call

    every: Any = shipped(function, gives_results=False)

    def run(*columns: Any) -> Any:
        (found,) = every(iter((columns,)))
        return found

    # Spark reads the kind of a UDF from them
    run.__annotations__ = {"columns": pyarrow.Array, "return": pyarrow.Array}
    make: Any = arrow_udf
    return make(run, kind)


def results(rows: Iterable[Row]) -> Iterator[dict[str, Any]]:
    """What tasks have given, one JSON text a row; raises OtherCode if one of them could not run."""
    for row in rows:
        result: dict[str, Any] = json.loads(row.result)
        if "other_code" in result:
            raise OtherCode(
                result["other_code"],
                where="executors",
                hint="ship the driver's wheel as a .zip by --py-files, or rebuild the executors' image with it and its "
                "libraries, and start again; nothing of this batch was committed",
            )
        yield result
