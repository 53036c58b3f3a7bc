"""Put faults into the router one at a time, run the tests that should notice, and list those that did not.

    python -m tests.mutation --count 300 --seed 1 [--only router/filters/groups.py] [--minutes 40]

The libraries are imported once; each fault gets a process of its own, forked from there, in which an import hook
compiles the module with the fault (no file is changed). Kernels run uncompiled: their faults are not worth a
compilation each, and machine code of the sound module lies in a cache.
"""

from __future__ import annotations

import argparse
import ast
import importlib.abc
import importlib.machinery
import os
import random
import resource
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.mutation.operators import Mutant, mutants, mutate

_ROOT: Final = Path(__file__).parents[2]
_UNIT: Final = "tests/unit"
_FILTERS: Final = f"{_UNIT}/filters"
_RULES: Final = (
    *(f"{_FILTERS}/test_{name}.py" for name in ("shared_rules", "sql_rules", "selector_rules", "like", "text")),
    *(f"{_FILTERS}/test_{name}.py" for name in ("nested_text", "groups")),
    f"{_FILTERS}/test_every_kind.py::test_every_kind_of_value_under_every_kind_of_reference",
    f"{_FILTERS}/test_agreement.py",
)
_EVALUATED: Final = (*_RULES, f"{_FILTERS}/sets", f"{_FILTERS}/test_every_kind.py", f"{_FILTERS}/test_errors.py")
_ENGINE: Final = (f"{_UNIT}/engine",)
#: Beginning of a module's path -> the tests that should notice its faults, the quickest first.
_TESTS: Final[dict[str, tuple[str, ...]]] = {
    "router/filters/lint": (f"{_FILTERS}/test_lint.py", f"{_FILTERS}/test_check_command.py"),
    "router/filters/xpath": (f"{_FILTERS}/test_xpath.py",),
    "router/filters/trace": (f"{_FILTERS}/test_trace.py", f"{_FILTERS}/test_check_command.py", f"{_UNIT}/explain"),
    "router/filters/description": (f"{_FILTERS}/test_trace.py", f"{_FILTERS}/test_check_command.py"),
    "router/filters/printer": (
        f"{_FILTERS}/test_errors.py",
        f"{_FILTERS}/test_agreement.py",
        f"{_FILTERS}/test_trace.py",
    ),
    **{
        f"router/filters/{name}": _RULES
        for name in ("vector", "pairs", "kernels", "arithmetic", "scalar", "like", "text")
    },
    "router/filters": _EVALUATED,
    "router/engine": _ENGINE,
    "router/exchanges": (f"{_UNIT}/exchanges", *_ENGINE),
    "router/matching": (f"{_UNIT}/exchanges", *_ENGINE),
    "router/links": (f"{_UNIT}/test_links.py", *_ENGINE),
    "router/columns": (f"{_UNIT}/test_columns.py", f"{_UNIT}/test_message.py", *_EVALUATED),
    "router/equality": (f"{_UNIT}/test_equality.py", f"{_UNIT}/exchanges"),
    "router/values": (f"{_UNIT}/test_values.py", f"{_UNIT}/test_equality.py"),
}
#: The generators' own tests say nothing of the router.
_PYTEST: Final = (
    *("-x", "-q", "--assert=plain", "-p", "no:randomly", "-p", "no:cacheprovider"),
    *("-k", "not generators_bring"),
)
_DEFAULT: Final = ("router/engine", "router/filters", "router/exchanges", "router/matching", "router/links")


@dataclass(frozen=True)
class Fault:
    """A mutant of a module."""

    module: str
    mutant: Mutant


class _Mutated(importlib.machinery.SourceFileLoader):
    """Loads a module from a tree in place of its source."""

    def __init__(self, name: str, path: str, tree: ast.Module) -> None:
        super().__init__(name, path)
        self._tree = tree

    def get_code(self, fullname: str) -> Any:
        return compile(self._tree, self.path, "exec", dont_inherit=True)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, name: str, tree: ast.Module) -> None:
        self._name, self._tree = name, tree

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        if fullname != self._name:
            return None
        found = importlib.machinery.PathFinder.find_spec(fullname, path)
        if found is None or found.origin is None:
            return None
        loader = _Mutated(fullname, found.origin, self._tree)
        return importlib.machinery.ModuleSpec(
            fullname, loader, origin=found.origin, is_package=found.submodule_search_locations is not None
        )


def main() -> int:
    options = _options()
    # a run is to be repeatable, and a failure need not be shrunk
    os.environ.setdefault("BINDERY_EXAMPLES", "0.25")
    _import_libraries()
    faults = _sample(options)
    baseline = {tests: _run(None, tests, 600.0) for tests in {_tests_of(fault.module) for fault in faults}}
    for tests, (outcome, seconds) in baseline.items():
        print(f"without a fault: {outcome}, {seconds:.0f} s, {' '.join(tests)[:100]}", flush=True)
        if outcome != "survived":
            return 1
    counted: dict[str, Counter[str]] = {}
    survivors: list[Fault] = []
    end = time.monotonic() + options.minutes * 60
    for number, fault in enumerate(faults):
        if time.monotonic() > end:
            break
        if number % 20 == 19:
            print(f"… {number + 1} of {len(faults)}", flush=True)
        tests = _tests_of(fault.module)
        outcome, seconds = _run(fault, tests, 4 * baseline[tests][1] + 20)
        counted.setdefault(fault.module, Counter())[outcome] += 1
        if outcome == "survived":
            survivors.append(fault)
            print(_described(fault), flush=True)
    _report(counted, survivors)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--count", type=int, default=300, help="faults to try, sampled from all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=40.0, help="stop after so long")
    parser.add_argument("--only", nargs="*", default=_DEFAULT, help="modules or packages, such as router/engine")
    return parser.parse_args()


def _import_libraries() -> None:
    import hypothesis  # noqa: F401
    import lark  # noqa: F401
    import numba  # noqa: F401
    import numpy  # noqa: F401
    import pyarrow.compute  # noqa: F401
    import pytest  # noqa: F401


def _sample(options: argparse.Namespace) -> list[Fault]:
    every = [
        Fault(path.relative_to(_ROOT).as_posix(), mutant)
        for place in options.only
        for path in sorted((_ROOT / place).rglob("*.py") if (_ROOT / place).is_dir() else [_ROOT / place])
        for mutant in mutants(path.read_text())
    ]
    chosen = random.Random(options.seed).sample(every, min(options.count, len(every)))
    print(f"{len(chosen)} of {len(every)} faults, seed {options.seed}", flush=True)
    return chosen


def _tests_of(module: str) -> tuple[str, ...]:
    return next(tests for beginning, tests in _TESTS.items() if module.startswith(beginning))


def _run(fault: Fault | None, tests: tuple[str, ...], limit: float) -> tuple[str, float]:
    """What became of a fault (killed, timed out, survived), and after how many seconds."""
    started = time.monotonic()
    child = os.fork()
    if child == 0:
        code = _child(fault, tests)
        sys.stdout.flush()
        os._exit(code)
    while time.monotonic() - started < limit:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            survived = os.waitstatus_to_exitcode(status) == 0
            return "survived" if survived else "killed", time.monotonic() - started
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "timed out", time.monotonic() - started


def _child(fault: Fault | None, tests: tuple[str, ...]) -> int:
    import numba
    import pytest

    if fault is not None:
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, 1)
        os.dup2(sink, 2)
    resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))
    if fault is not None:
        name = "bindery." + fault.module.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        tree = mutate((_ROOT / fault.module).read_text(), fault.mutant.number)
        sys.meta_path.insert(0, _Finder(name, tree))
        numba.config.DISABLE_JIT = int("kernels" in name and name != "bindery.router.filters.kernels")
    try:
        return int(
            pytest.main(
                [
                    "-x",
                    "-q",
                    "--assert=plain",
                    "-p",
                    "no:randomly",
                    "-p",
                    "no:cacheprovider",
                    "-k",
                    "not generators_bring",
                    *tests,
                ],
                plugins=[_Repeatable()],
            )
        )
    except BaseException as error:  # whatever a fault does to pytest itself
        print("pytest failed:", repr(error))
        return 1


class _Repeatable:
    """Random tests with the same examples each time, without the search for the smallest failure."""

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        from hypothesis import Phase, is_hypothesis_test, settings

        for item in items:
            test = getattr(item, "obj", None)
            if test is not None and is_hypothesis_test(test):
                own = getattr(test, "_hypothesis_internal_use_settings", None) or settings()
                plain = settings(own, phases=[Phase.explicit, Phase.generate], derandomize=True, database=None)
                getattr(test, "__func__", test)._hypothesis_internal_use_settings = plain


def _described(fault: Fault) -> str:
    mutant = fault.mutant
    return f"survived: {fault.module}:{mutant.line} #{mutant.number}\n    - {mutant.before}\n    + {mutant.after}"


def _report(counted: dict[str, Counter[str]], survivors: list[Fault]) -> None:
    width = max(map(len, counted), default=0)
    print(f"\n{'module':<{width}}  mutants  killed  timed out  survived")
    rows = [*sorted(counted.items()), ("in all", sum(counted.values(), Counter()))]
    for module, outcomes in rows:
        numbers = (outcomes.total(), outcomes["killed"], outcomes["timed out"], outcomes["survived"])
        print(f"{module:<{width}}  {numbers[0]:>7}  {numbers[1]:>6}  {numbers[2]:>9}  {numbers[3]:>8}")
    if survivors:
        print("\n" + "\n".join(map(_described, survivors)))


if __name__ == "__main__":
    raise SystemExit(main())
