"""What users import: `bindery` and the types of every package."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import bindery

PACKAGES = ("bindery", "bindery.router", "bindery.store", "bindery.api", "bindery.jobs")


def test_bindery_offers_what_it_says() -> None:
    assert bindery.__all__ == ["read_queue"]
    parameters = inspect.signature(bindery.read_queue).parameters
    assert list(parameters)[:2] == ["data", "queue"]
    assert {"vhost", "filter", "dialect", "version", "columns", "connection"} <= parameters.keys()
    with pytest.raises(AttributeError, match="no attribute 'read_queues'"):
        bindery.read_queues  # noqa: B018


def test_importing_bindery_imports_nothing_heavy() -> None:
    code = (
        "import bindery, sys; print(sorted({'pyarrow', 'pyspark', 'deltalake', 'bindery.store'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize("name", PACKAGES)
def test_every_package_says_that_it_has_types(name: str) -> None:
    file = importlib.import_module(name).__file__
    assert file is not None
    assert Path(file).with_name("py.typed").is_file()
