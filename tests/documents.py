"""Pages of the documentation as sessions: files are written, commands run and examples executed, block after block."""

from __future__ import annotations

import ast
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import typer
from typer.testing import CliRunner

from bindery.cli.main import app
from bindery.router.error_text import render_error
from bindery.router.errors import BinderyError

ROOT = Path(__file__).parents[1]
#: tests/pages/test_notebook.py runs their notebooks.
PAGES_OF_NOTEBOOKS = sorted(path.with_suffix(".md") for path in ROOT.glob("docs/**/*.ipynb"))
#: The port on which pages have a control plane.
PORT = 15672

#: One that shows neither styles nor progress.
_TERMINAL = {"TTY_COMPATIBLE": "1", "TERM": "dumb"}
_FENCE = re.compile(r"^( *)```([\w-]*)(?: (\S+))?\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_HEREDOC = re.compile(r"<<'(\w+)'")


@dataclass(frozen=True, slots=True)
class Block:
    """What stands between two fences: its language, the name of the file that it is, if any, and its text."""

    page: str
    line: int
    kind: str
    name: str
    text: str
    section: str

    @property
    def title(self) -> str:
        """Its first line, by which a test names it."""
        return self.text.partition("\n")[0].strip()

    def commands(self) -> Iterator[tuple[str, str]]:
        """The commands of a session or a script, each with the output that is shown."""
        if self.kind == "console":
            for part in re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]:
                yield _first_command(part)
        else:
            rest = self.text
            while rest.strip():
                command, rest = _first_command(rest)
                if not re.fullmatch(r"\s*(#.*)?", command):
                    yield command, ""


def pages() -> list[str]:
    """Every page for users and developers, but those that notebooks are rendered as."""
    found = sorted(path for path in ROOT.glob("docs/**/*.md") if path not in PAGES_OF_NOTEBOOKS)
    return ["README.md", "CONTRIBUTING.md", *(str(path.relative_to(ROOT)) for path in found)]


def blocks(page: str) -> list[Block]:
    """The blocks of a page, in order."""
    text = (ROOT / page).read_text("utf-8")
    found = []
    for match in _FENCE.finditer(text):
        headings = re.findall(r"^#+ (.+)$", text[: match.start()], re.MULTILINE)
        line = text.count("\n", 0, match.start()) + 1
        inside = re.sub(rf"^{match[1]}", "", match[4], flags=re.MULTILINE)  # a block in a list or a tab is indented
        found.append(Block(page, line, match[2], match[3] or "", inside, headings[-1] if headings else ""))
    assert len(found) * 2 == len(re.findall(r"^ *```", text, re.MULTILINE)), f"{page}: a fence that is not closed"
    return found


def _first_command(text: str) -> tuple[str, str]:
    """The command at the beginning of a text, over as many lines as it takes, and what follows."""
    lines = text.splitlines()
    for count in range(1, len(lines) + 1):
        command = "\n".join(lines[:count])
        heredoc = _HEREDOC.search(command)
        if (heredoc and heredoc[1] not in lines[1:count]) or command.endswith("\\"):
            continue
        try:
            heredoc or shlex.split(command, comments=True)
        except ValueError:  # a quote that is open
            continue
        return command, "\n".join(lines[count:])
    raise AssertionError(f"no command: {text}")


@contextmanager
def working_folder(folder: Path) -> Iterator[Path]:
    """The pages name relative paths."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield folder
    finally:
        os.chdir(before)


def arguments(command: str) -> list[str] | None:
    """The words of a simple command as the shell passes them on; None for what only a shell runs."""
    words = list(shlex.shlex(command, posix=True, punctuation_chars=True))
    if any(set(word) <= set("();<>|&") for word in words) or "`" in command:
        return None
    done = subprocess.run(["bash", "-c", f"printf '%s\\0' {command}"], capture_output=True, check=True)
    return done.stdout.decode().split("\0")[:-1]


def bindery(words: list[str]) -> tuple[int, str]:
    """The exit code of a `bindery` command and what it prints on a plain terminal, without blanks at line ends."""
    done = CliRunner(env=_TERMINAL).invoke(app, words[1:])
    if isinstance(done.exception, BinderyError):
        return done.exception.exit_code, _tidied(f"{done.output}{render_error(done.exception)}")
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, _tidied(done.output)


def check_options(words: list[str]) -> None:
    """Raise for a `bindery` command that the command line would not take; it is not run."""
    command: Any = typer.main.get_command(app)
    context = None
    while hasattr(command, "commands"):
        words = words[1:]
        context = command.make_context(words[0] if words else "", [], parent=context, resilient_parsing=True)
        command = command.commands[words[0]]
    command.make_context(words[0], words[1:], parent=context)


@dataclass
class Reader:
    """Somebody who does what a page says, in the working directory; close it at the end."""

    left_out: Collection[str] = ()
    #: Numbers of these commands' output depend on more than the page.
    measured: Collection[str] = ()
    #: Where the programs are; None for those of the tests, whose `bindery` commands run in their own process.
    programs: Path | None = None
    examples: dict[str, Any] = field(default_factory=dict)
    _curl: Path = field(default_factory=lambda: Path(tempfile.mkdtemp()))
    _services: list[tuple[subprocess.Popen[str], int]] = field(default_factory=list)
    #: What else has to be closed at the end.
    beside: ExitStack = field(default_factory=ExitStack)

    def run(self, block: Block) -> None:
        """Do what a block of commands, a Python example or a file says; outputs have to be those that are shown."""
        if block.name:
            Path(block.name).parent.mkdir(parents=True, exist_ok=True)
            Path(block.name).write_text(block.text, "utf-8")
        elif block.kind == "python":
            self._execute(block.text)
        else:
            for command, shown in block.commands():
                if command.partition("\n")[0] not in self.left_out:
                    self._enter(command, shown.strip("\n"))

    def _enter(self, command: str, shown: str) -> None:
        words = arguments(command.removesuffix(" &"))
        if words and words[0] == "export":
            os.environ.update(word.split("=", 1) for word in words[1:])
        elif words and words[0] == "cd":
            os.chdir(words[1])
        elif words and words[:2] == ["pip", "install"]:
            check_extras(words[2:])
        elif words and words[:2] == ["bindery", "serve"]:
            said = self.serve(words)
            assert not shown or same(shown, said), f"{command}\n{said}"
        else:
            inside = words and words[0] == "bindery" and self.programs is None
            code, said = bindery(words) if words and inside else self._shell(command)
            if not shown:
                assert code == 0, f"{command}\n{said}"
            elif command in self.measured:
                # lines about the progress come before
                last = "\n".join(said.splitlines()[-len(shown.splitlines()) :])
                assert same(_without_numbers(shown), _without_numbers(last)), f"{command}\n{said}"
            else:
                # a bar that moves comes before what is left of it
                last = said[-len(shown) :] if command.startswith("bindery route") else said
                assert same(shown, last), f"{command}\n{said}"

    def serve(self, words: list[str]) -> str:
        """Start a control plane on a free port; gives what it prints until it listens."""
        words = [*words[1:]]
        if "--port" in words:
            del words[words.index("--port") : words.index("--port") + 2]
        process = subprocess.Popen(
            [sys.executable, "-m", "bindery.cli.main", *words, "--port", "0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line.rstrip())
            if "listening on" in line:
                port = int(line.rpartition(":")[2])
                self._services.append((process, port))
                return "\n".join(said).replace(f":{port}", f":{PORT}")
        raise AssertionError("\n".join(said))

    def close(self) -> None:
        """Stop what was started."""
        for process, _ in self._services:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
            assert process.stdout is not None
            process.stdout.close()
        self._services.clear()
        self.beside.close()
        shutil.rmtree(self._curl)

    def _shell(self, command: str) -> tuple[int, str]:
        if self._services:
            command = re.sub(rf"(127\.0\.0\.1|localhost):{PORT}\b", rf"\1:{self._services[-1][1]}", command)
        path = f"{self.programs or Path(sys.executable).parent}:{os.environ['PATH']}"
        (self._curl / ".curlrc").write_text("silent\nshow-error\nfail-with-body\n")
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            env={**os.environ, **_TERMINAL, "PATH": path, "CURL_HOME": str(self._curl)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            check=False,
        )
        return done.returncode, _tidied(done.stdout)

    def _execute(self, text: str) -> None:
        """Run a Python example; where a comment behind an expression is a literal, it is the value."""
        # Spark's JVM, which the tests share, was started in another folder
        text = text.replace('load("data/', f'load("{Path.cwd()}/data/')
        lines = text.splitlines()
        for node in ast.parse(text).body:
            if not isinstance(node, ast.Expr):
                exec(compile(ast.Module([node], []), text, "exec"), self.examples)  # noqa: S102  # our own text
                continue
            value = eval(compile(ast.Expression(node.value), text, "eval"), self.examples)  # noqa: S307
            behind = lines[(node.end_lineno or 0) - 1].encode()[node.end_col_offset or 0 :].decode()
            shown = behind.partition("# ")[2]
            try:
                expected = ast.literal_eval(shown)
            except (SyntaxError, ValueError):  # a remark
                continue
            assert value == expected, f"{ast.unparse(node)} is {value!r}"


def check_extras(words: list[str]) -> None:
    """Raise when `pip install` names an extra that the package does not have."""
    for word in words:
        if match := re.search(r"bindery[^[]*\[(.+)\]", word):
            missing = set(match[1].split(",")) - set(metadata("bindery").get_all("Provides-Extra") or ())
            assert not missing, missing


def same(shown: str, printed: str) -> bool:
    """Whether an output is the one that is shown, in which `…` stands for anything."""
    pattern = ".*".join(map(re.escape, shown.split("…")))
    return re.fullmatch(pattern, printed, re.DOTALL) is not None


def _tidied(output: str) -> str:
    return "\n".join(line.rstrip() for line in output.splitlines()).strip("\n")


def _without_numbers(text: str) -> str:
    return re.sub(r" +", " ", re.sub(r"[\d.,]*\d( ?[KMG]iB| bytes)?", "N", text))
