"""Schemas of bodies that stand in files, as `x-payload-schema` states them."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from bindery.router.documents import Source
from bindery.router.documents.places import member
from bindery.router.errors import InvalidInput
from bindery.router.filters.schemas import MAX_SCHEMA, SCHEMA_FORMATS
from bindery.router.model import PAYLOAD_ARGUMENT, PAYLOAD_SCHEMA

#: Seconds that the compiler may take for what people write in a file.
_PATIENCE: Final = 60


def schema_of_file(format: str, path: Path) -> Any:
    """The schema of a file, as JSON data; raises InvalidInput when it is unreadable.

    Of avro the JSON; of protobuf what a `.proto` file compiles to, with what it imports from its folder, or the
    FileDescriptorSet that any other file is.
    """
    try:
        with path.open("rb") as file:
            content = file.read(4 * MAX_SCHEMA + 1)
        if format == "avro":
            return json.loads(content.decode("utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        said = error.strerror if isinstance(error, OSError) else error
        raise InvalidInput(f"the file is no schema of {format}: {said}", where="") from None
    if path.suffix == ".proto":
        content = compiled(path.name, path.parent)
    return base64.b64encode(content).decode()


def read_schema_files(source: Source, folder: Path | None) -> list[dict[str, Any]]:
    """Put the schemas of files in their place, wherever a document states `{"file": name}` as the schema of bodies.

    `folder` is that of the document, None of one that came from standard input. Gives what is wrong, as data.
    """
    problems = []
    for path, format, holder, key in _stated(source.value):
        try:
            holder[key] = schema_of_file(format, _beside(holder[key]["file"], folder))
        except InvalidInput as error:
            problems.append(source.problem(error, path))
    return problems


def _stated(document: Any) -> Iterator[tuple[str, str, dict[str, Any], str]]:
    """Where a document states files: the path, the format, and the object and key where the schema is to stand."""
    from bindery.router.proposal import DEFINITIONS_KEYS  # noqa: PLC0415  # `bindery --help` does not wait for it

    for inside in ("", *DEFINITIONS_KEYS):
        part = document.get(inside) if inside else document
        for section in ("exchanges", "queues"):
            listed = part.get(section) if isinstance(part, dict) else None
            for number, item in enumerate(listed if isinstance(listed, list) else ()):
                arguments = item.get("arguments") if isinstance(item, dict) else None
                if not isinstance(arguments, dict):
                    continue
                format = arguments.get(PAYLOAD_ARGUMENT)
                if not isinstance(format, str) or format not in SCHEMA_FORMATS:
                    continue
                path = f"{member(inside, section)}[{number}].arguments.{PAYLOAD_SCHEMA}"
                schema = arguments.get(PAYLOAD_SCHEMA)
                if _is_file(schema):
                    yield path, format, arguments, PAYLOAD_SCHEMA
                registry = schema.get("registry") if isinstance(schema, dict) else None
                if isinstance(registry, dict):
                    for name, one in registry.items():
                        if _is_file(one):
                            yield f"{path}.registry.{name}", format, registry, name


def _is_file(stated: Any) -> bool:
    return isinstance(stated, dict) and [*stated] == ["file"]


def _beside(name: Any, folder: Path | None) -> Path:
    """The file of that name in the folder of a document or below it; raises InvalidInput for any other."""
    if folder is None:
        hint = "state the schema itself, or give the document as a file"
        raise InvalidInput("a document from standard input has no folder to read files from", where="", hint=hint)
    found = folder / name if isinstance(name, str) and name else None
    if found is None or not found.resolve().is_relative_to(folder.resolve()):
        hint = "a path relative to the document, without .. and links that lead out"
        raise InvalidInput(f"{name!r} is no file beside the document", where="", hint=hint)
    return found


def compiled(name: str, folder: Path) -> bytes:
    """The FileDescriptorSet of a `.proto` file in a folder, and of what it imports; raises InvalidInput."""
    if find_spec("grpc_tools") is None:
        raise InvalidInput(
            f"{name} cannot be compiled: no compiler is installed",
            where="",
            hint="pip install 'bindery[proto]', or give the file of protoc --include_imports --descriptor_set_out=FILE",
        )
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch) / "set"
        # C++ reads what may be hostile in a process of its own; -P: nothing is imported from the working directory
        command = [
            sys.executable,
            "-P",
            "-m",
            "grpc_tools.protoc",
            f"--proto_path={folder.resolve()}",
            "--include_imports",
        ]
        try:
            done = subprocess.run(  # noqa: S603  # arguments, no shell
                [*command, f"--descriptor_set_out={made}", str(folder.resolve() / name)],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_PATIENCE,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise InvalidInput(f"{name} took more than {_PATIENCE} s to compile", where="") from None
        if done.returncode:
            lines = done.stderr.replace(f"{folder.resolve()}/", "").splitlines()
            said = "; ".join([line for line in lines if ".proto:" in line] or lines)
            raise InvalidInput(f"the file is no schema of protobuf: {said[:500]}", where="")
        return made.read_bytes()
