"""No coroutine of the service does blocking work: found by reading the source, whoever adds a route."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

API = Path(__file__).parents[3] / "api"
#: Parts of the control plane that look at the disk, or wait for somebody who does.
PARTS = {"topology", "topologies", "access", "jobs", "counts", "totals", "author"}
#: What opens, looks at or changes files, whoever offers it.
FILES = {"open", "stat", "exists", "is_dir", "is_file", "iterdir", "glob", "mkdir", "unlink", "rename", "chmod"}
FILES |= {"read_text", "read_bytes", "write_text", "write_bytes", "disk_usage", "sleep", "result"}
#: Modules of the storage layer whose functions only work in memory.
IN_MEMORY = {"bindery.store.access", "bindery.store.access_definitions", "bindery.store.comparison"}
#: What takes time in proportion to a whole document.
LONG = {"parse_object", "parse_definitions", "proposed_changes", "apply_access"}

Body = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Function:
    module: str
    node: Body
    imported: dict[str, str] = field(default_factory=dict)

    @property
    def own_calls(self) -> Iterator[ast.Call]:
        """Calls that the function itself makes: not those of functions that it only hands on."""
        waiting: list[ast.AST] = list(self.node.body)
        while waiting:
            node = waiting.pop()
            if isinstance(node, Body | ast.Lambda):
                continue
            if isinstance(node, ast.Call):
                yield node
            waiting += ast.iter_child_nodes(node)


def dotted(node: ast.AST) -> list[str]:
    """`plane.access.load` as its names; what is called on the way is passed over."""
    match node:
        case ast.Name():
            return [node.id]
        case ast.Attribute():
            return [*dotted(node.value), node.attr]
        case ast.Call():
            return dotted(node.func)
    return []


def functions_of(module: str, source: str) -> list[Function]:
    tree = ast.parse(source)
    imported = {
        name.asname or name.name: f"{node.module}.{name.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        for name in node.names
    }
    return [Function(module, node, imported) for node in ast.walk(tree) if isinstance(node, Body)]


def is_blocking(call: ast.Call, function: Function) -> bool:
    names = dotted(call.func)
    if not names:
        return False
    origin = function.imported.get(names[0], "")
    if names[0] == "asyncio":
        return False
    if names[0] in ("plane", "self") and PARTS.intersection(names[1:]):
        return names[0] == "plane" or function.module == "bindery.api.control_plane"
    if origin.startswith("bindery.store.") and not any(origin.startswith(f"{module}.") for module in IN_MEMORY):
        return names[-1].islower()
    of_files = names == ["open"] or (len(names) > 1 and names[-1] in FILES)
    return of_files or names[-1] in LONG


def violations(modules: dict[str, str]) -> list[str]:
    """`module.function: call` for every blocking call that a coroutine makes, directly or through functions."""
    functions = [function for module, source in modules.items() for function in functions_of(module, source)]
    by_name = {f"{one.module}.{one.node.name}": one for one in functions}
    blocking = {name for name, one in by_name.items() if any(is_blocking(call, one) for call in one.own_calls)}

    def callee(call: ast.Call, function: Function) -> str:
        names = dotted(call.func)
        return function.imported.get(names[0], f"{function.module}.{names[0]}") if len(names) == 1 else ""

    grown = True
    while grown:
        further = {
            name
            for name, one in by_name.items()
            if isinstance(one.node, ast.FunctionDef) and any(callee(call, one) in blocking for call in one.own_calls)
        }
        grown = not further <= blocking
        blocking |= further
    sync = {name for name in blocking if isinstance(by_name[name].node, ast.FunctionDef)}
    return sorted(
        f"{one.module}.{one.node.name}: {ast.unparse(call.func)}"
        for one in functions
        if isinstance(one.node, ast.AsyncFunctionDef)
        for call in one.own_calls
        if is_blocking(call, one) or callee(call, one) in sync
    )


def test_no_coroutine_of_the_service_blocks() -> None:
    modules = {
        ".".join(("bindery.api", *path.relative_to(API).with_suffix("").parts)): path.read_text()
        for path in API.rglob("*.py")
    }
    assert len(modules) > 40
    # a body of 64 KiB at most is parsed where it was read
    assert violations(modules) == ["bindery.api.bodies.read_object: parse_object"]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("return plane.topology()", "plane.topology"),
        ("return plane.topology().vhosts[name]", "plane.topology"),
        ("return await run_in_threadpool(definitions.check, document, plane.topology())", "plane.topology"),
        ("return plane.access.load().users", "plane.access.load"),
        ("return read.take(plane.data, name)", "read.take"),
        ("return helper(plane)", "helper"),
        ("return outer(plane)", "outer"),
        ("with open('x') as file: return file.read()", "open"),
        ("return await run_in_threadpool(plane.topology)", None),
        ("return await plane.change(lambda editor: plane.counts.of('v', 'q'), author='a')", None),
        ("await asyncio.sleep(0)", None),
    ],
)
def test_the_reader_finds_what_it_is_to_find(body: str, found: str | None) -> None:
    source = f"""
from bindery.store import read
def helper(plane): return plane.jobs.all()
def outer(plane): return helper(plane)
async def handler(plane, name):
    {body}
"""
    expected = [] if found is None else [f"bindery.api.routes.x.handler: {found}"]
    assert violations({"bindery.api.routes.x": source}) == expected
