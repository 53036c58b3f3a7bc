"""What benchmarks found: `results/latest.json`, from which `python -m handbook.figures` writes docs/benchmarks.md.

Every benchmark records the answers to its questions here, each with the command that asks it again; an answer takes the
place of the one before. The file holds

    {"format": 1,
     "runs": {COMMAND: {"date", "commit", "machine": {"cores", "memory_gib", "cpu", "load"},
                        "versions": {NAME: VERSION}}},
     "questions": {NAME: {"group", "title", "unit", "figures": {NAME: NUMBER}, "ratio", "spread": [LEAST, GREATEST],
                          "at_least", "at_most", "settings": {NAME: TEXT}, "command"}}}

`load` is the average of the minute before the run, `figures` begins with Bindery's and has the yardstick's second,
`spread` is that of the ratio over the rounds. With BINDERY_BENCH_RESULTS another file is written.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
LATEST: Final = ROOT / "results" / "latest.json"
#: Names another file to write results to.
VARIABLE: Final = "BINDERY_BENCH_RESULTS"
FORMAT: Final = 1
_PACKAGES: Final = {"pyspark": "pyspark", "pyarrow": "pyarrow", "delta": "delta-spark", "deltalake": "deltalake"}
#: Before the benchmark that imports this begins.
_LOAD: Final = os.getloadavg()[0]


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one question; `at_least` and `at_most` are what the ratio ought to be."""

    group: str
    title: str
    unit: str
    figures: Mapping[str, float]
    ratio: float
    spread: tuple[float, float]
    settings: Mapping[str, str]
    command: str
    at_least: float | None = None
    at_most: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the ratio is what it ought to be; None where nothing is asked of it."""
        if self.at_least is not None:
            return self.ratio >= self.at_least
        return None if self.at_most is None else self.ratio <= self.at_most


@dataclass(frozen=True, slots=True)
class Run:
    """When, where and with what a command ran."""

    date: str
    commit: str
    machine: Mapping[str, Any]
    versions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Results:
    """Question -> answer, and command -> its last run."""

    questions: dict[str, Answer] = field(default_factory=dict)
    runs: dict[str, Run] = field(default_factory=dict)

    def groups(self) -> dict[str, dict[str, Answer]]:
        """Group -> its questions, both in the order of the file."""
        found: dict[str, dict[str, Answer]] = {}
        for name, answer in self.questions.items():
            found.setdefault(answer.group, {})[name] = answer
        return found


def read(file: Path = LATEST) -> Results:
    """The results of a file; none where there is no file. Raises ValueError for a format that is not known."""
    if not file.exists():
        return Results()
    content = json.loads(file.read_text("utf-8"))
    if content.get("format") != FORMAT:
        raise ValueError(f"{file}: format {content.get('format')!r} is not {FORMAT}; remove it and run the benchmarks")
    questions = {
        name: Answer(**{**answer, "spread": tuple(answer["spread"])}) for name, answer in content["questions"].items()
    }
    for name, answer in questions.items():
        if answer.command not in content["runs"]:
            raise ValueError(f"{file}: question {name!r}: no run of {answer.command!r}")
    return Results(questions, {command: Run(**run) for command, run in content["runs"].items()})


def record(question: str, answer: Answer, *, versions: Mapping[str, str] | None = None) -> None:
    """Put an answer in the place of the one before; `versions` of what the run met besides Python's packages."""
    file = Path(os.environ.get(VARIABLE) or LATEST)
    results = read(file)
    results.questions[question] = answer
    before = results.runs.get(answer.command)
    now = _run()
    kept = before.versions if before and before.commit == now.commit else {}
    results.runs[answer.command] = Run(now.date, now.commit, now.machine, {**kept, **now.versions, **(versions or {})})
    asked = {one.command for one in results.questions.values()}
    content = {
        "format": FORMAT,
        "runs": {command: asdict(run) for command, run in results.runs.items() if command in asked},
        "questions": {name: asdict(one) for name, one in results.questions.items()},
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    written = file.with_suffix(".new")
    written.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", "utf-8")
    written.replace(file)


def rounds(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, tuple[float, float]]:
    """How many times ours theirs is: the median of the rounds, each of which measured both, and their extremes."""
    ratios = sorted(other / own for own, other in zip(ours, theirs, strict=True))
    middle = len(ratios) // 2
    median = ratios[middle] if len(ratios) % 2 else (ratios[middle - 1] + ratios[middle]) / 2
    return median, (ratios[0], ratios[-1])


def _run() -> Run:
    return Run(
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
        commit=_output(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]) or "unknown",
        machine={
            "cores": len(os.sched_getaffinity(0)),
            "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
            "cpu": _processor(),
            "load": round(_LOAD, 1),
        },
        versions={
            "python": platform.python_version(),
            **{name: found for name, package in _PACKAGES.items() if (found := version_of(package))},
            **({"java": found} if (found := _java()) else {}),
        },
    )


def version_of(package: str) -> str | None:
    """The version of a package of Python, if it is installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _java() -> str | None:
    first = _output(["java", "--version"]).partition("\n")[0].split()
    return first[1] if len(first) > 1 else None


def _output(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
