"""Schemas of bodies that stand in files, as `x-payload-schema` states them."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from bindery.router.errors import InvalidInput
from bindery.router.filters.schemas import MAX_SCHEMA

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
        # the compiler of C++ in a process of its own; every argument begins with an option or is a path
        command = [sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={folder.resolve()}", "--include_imports"]
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
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            raise InvalidInput(f"the file is no schema of protobuf: {'; '.join(lines)[:500]}", where="")
        return made.read_bytes()
