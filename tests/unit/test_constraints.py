"""The two sets of packages that are installed and tested: the newest ones, and the oldest that are allowed."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_ROOT: Final = Path(__file__).parents[2]
_PROJECT: Final = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]


def constraints(name: str) -> dict[str, str]:
    lines = (_ROOT / "configs" / "constraints" / f"{name}.txt").read_text().splitlines()
    pairs = [line.split("==") for line in lines if not line.startswith("#")]
    return {canonicalize_name(package): version for package, version in pairs}


def required(extras: bool) -> list[Requirement]:
    texts = [*_PROJECT["dependencies"]]
    if extras:
        texts += [
            text
            for name in ("demo", "docs", "kafka", "proto", "rabbitmq", "s3", "sql", "test")
            for text in _PROJECT["optional-dependencies"][name]
        ]
    return [one for text in texts if (one := Requirement(text)).name != "bindery"]


@pytest.mark.parametrize("requirement", required(extras=True), ids=str)
def test_the_newest_set_has_every_package_in_an_allowed_version(requirement: Requirement) -> None:
    assert requirement.specifier.contains(constraints("newest")[canonicalize_name(requirement.name)])


def test_the_oldest_set_is_the_lower_bounds_of_what_bindery_needs() -> None:
    bounds = {
        canonicalize_name(one.name): bound.version
        for one in required(extras=False)
        for bound in one.specifier
        if bound.operator in {"==", ">="}
    }
    assert constraints("oldest") == bounds
