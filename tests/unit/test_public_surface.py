"""What users import: `bindery` and the types of every package."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
import zipfile
from importlib.metadata import version as version_of
from pathlib import Path, PurePosixPath

import pytest

import bindery
from tests.packages import PARTS, PROJECT, own_packages

PACKAGES = ("bindery", "bindery.router", "bindery.store", "bindery.api", "bindery.jobs")


#: What every way to read a queue takes.
CHOOSING = "filter=None, dialect='jms', payload=None, flat=False, columns=None, since=None, at=None"
#: What programs rely on: names, and what is called with what. A change here is a change for them.
SURFACE = {
    "open": "(path)",
    "read_queue": (
        "(data, queue, *, vhost='/', filter=None, dialect='jms', version=None, columns=None, connection=None, "
        "payload=None, live=True)"
    ),
    "spark": "()",
    "spark.route": "(df, topology, mapping=None, *, vhost='/')",
    "spark.messages": "(df, mapping)",
    "spark.register": "(session)",
    "spark.selector": "(text, *, dialect='jms', columns=None, payload=None)",
    "Directory.path": "property",
    "Directory.topology": "property",
    "Directory.queues": "(self, vhost='/')",
    "Directory.queue": "(self, name, vhost='/', *, live=True)",
    "Directory.journals": "(self)",
    "Directory.journal": "(self, stream)",
    "Directory.snapshot": "(self, at=None)",
    "Directory.sql": "(self, query, *, at=None, vhost='/')",
    "Directory.explain": "(self, message, *, queues=(), vhost='/')",
    "Snapshot.topology": "property",
    "Snapshot.queues": "(self, vhost='/')",
    "Snapshot.queue": "(self, name, vhost='/', *, live=True)",
    "Snapshot.journals": "(self)",
    "Snapshot.journal": "(self, stream)",
    "Snapshot.sql": "(self, query, *, vhost='/')",
    "Queue.name": "member_descriptor",
    "Queue.vhost": "member_descriptor",
    "Queue.path": "property",
    "Journal.stream": "member_descriptor",
    "Journal.path": "property",
    **{
        f"{table}.{name}": f"(self, {before}*, {CHOOSING}{more})"
        for table in ("Queue", "Journal")
        for name, before, more in (
            ("arrow", "", ""),
            ("polars", "", ""),
            ("pandas", "", ""),
            ("duckdb", "", ", connection=None"),
            ("spark", "session=None, ", ""),
        )
    },
}


def _surface() -> dict[str, str]:
    found: dict[str, str] = {}
    for name in bindery.__all__:
        item = getattr(bindery, name)
        members = {name: item}
        if inspect.isclass(item):
            offered = {one: inspect.getattr_static(item, one) for one in dir(item) if not one.startswith("_")}
            members = {f"{name}.{one}": value for one, value in offered.items()}
        elif not inspect.isfunction(item):  # what is called, and has functions of its own
            named = {f"{name}.{one}": getattr(item, one) for one in vars(type(item)) if not one.startswith("_")}
            members = {name: item.__call__, **named}
        for called, value in members.items():
            if not inspect.isroutine(value):
                found[called] = type(value).__name__
                continue
            assert inspect.getdoc(value), called
            signature = inspect.signature(value)
            plain = [one.replace(annotation=inspect.Parameter.empty) for one in signature.parameters.values()]
            found[called] = str(inspect.Signature(plain))
    return found


def test_bindery_offers_what_it_says() -> None:
    assert bindery.__all__ == ["Directory", "Journal", "Queue", "Snapshot", "open", "read_queue", "spark"]
    assert _surface() == SURFACE
    with pytest.raises(AttributeError, match="no attribute 'read_queues'"):
        bindery.read_queues  # noqa: B018


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("bindery", {"pyarrow", "pyspark", "deltalake", "duckdb", "bindery.store", "bindery.analytics"}),
        ("bindery.cli.main", {"pandas", "pyspark", "duckdb", "fastapi", "numba", "confluent_kafka", "pika"}),
    ],
)
def test_what_is_imported_at_once_is_light(module: str, heavy: set[str]) -> None:
    code = f"import {module}, sys; print(sorted({heavy} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_wheel_installs_one_package(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(command, cwd=PROJECT, capture_output=True, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {PurePosixPath(name) for name in archive.namelist()}
    assert {name.parts[0] for name in names} == {"bindery", f"bindery-{version_of('bindery')}.dist-info"}
    sources = {path for part in PARTS for path in (PROJECT / part).rglob("*") if path.suffix in (".py", ".lark")}
    assert len(sources) > 200
    assert {"bindery" / PurePosixPath(path.relative_to(PROJECT)) for path in sources} <= names


def test_packages_of_the_same_names_in_the_working_directory_are_left_alone(tmp_path: Path) -> None:
    own_packages(tmp_path)
    code = "import bindery.api.app, bindery.cli.main, bindery.demo.__main__, bindery.jobs.route"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", PACKAGES)
def test_every_package_says_that_it_has_types(name: str) -> None:
    file = importlib.import_module(name).__file__
    assert file is not None
    assert Path(file).with_name("py.typed").is_file()
