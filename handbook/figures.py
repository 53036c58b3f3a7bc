"""What was measured, as tables and charts of docs/benchmarks.md, made from `results/latest.json`.

    python -m handbook.figures

writes the page's part between its two marks and the charts in `docs/pictures` anew.
"""

from __future__ import annotations

import math
import re
from typing import Final

from benchmarks.results import Answer, Results, Run, read
from handbook.drawing import Drawing, width_of
from handbook.hooks import ROOT

PAGE: Final = ROOT / "docs" / "benchmarks.md"
FOLDER: Final = ROOT / "docs" / "pictures"
BEGIN: Final = "<!-- from results/latest.json, by python -m handbook.figures -->\n"
END: Final = "<!-- to here -->\n"
#: Pixels: the chart's width, where a scale begins, the height of a line, room for a value behind the last point, and a
#: scale's height.
_WIDTH, _LEFT, _BAR, _VALUE, _SCALE = 760, 190, 14, 150, 52


def slug(group: str) -> str:
    """The name of a group's chart."""
    return "bench-" + re.sub(r"[^a-z0-9]+", "-", group.lower()).strip("-")


def charts(results: Results | None = None) -> dict[str, str]:
    """Name -> SVG of the chart of every group."""
    found = read() if results is None else results
    return {slug(group): _chart(group, list(answers.values())).svg() for group, answers in found.groups().items()}


def section(results: Results | None = None) -> str:
    """The part of the page between its marks."""
    found = read() if results is None else results
    return "".join(_group(group, answers, found) for group, answers in found.groups().items())


def page(text: str, part: str) -> str:
    """The page with its part put in. Raises ValueError for a page without the marks."""
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{PAGE.relative_to(ROOT)} lacks {BEGIN.strip()!r} or, after it, {END.strip()!r}")
    return f"{head}{BEGIN}\n{part}{END}{tail}"


def _group(group: str, answers: dict[str, Answer], results: Results) -> str:
    lines = [
        f"### {group}",
        "",
        f"![{_said(group, list(answers.values()))}](pictures/{slug(group)}.svg)",
        "",
        "| | Bindery | beside it | ratio | in the rounds | asked | again by |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [_row(answer) for answer in answers.values()]
    lines += ["", *(_settings(answer) for answer in answers.values()), ""]
    commands = list(dict.fromkeys(answer.command for answer in answers.values()))
    lines += [_where(results.runs[command], command, alone=len(commands) == 1) for command in commands]
    return "\n".join(lines) + "\n\n"


def _row(answer: Answer) -> str:
    ours, theirs = answer.figures.items()
    asked = "" if answer.at_least is None else f"≥ {answer.at_least:g}"
    asked += "" if answer.at_most is None else f"≤ {answer.at_most:g}"
    asked += "" if answer.met is None else ": met" if answer.met else ": missed"
    least, greatest = (number(one) for one in answer.spread)
    cells = [
        answer.title,
        f"{ours[0]}: {number(ours[1])} {answer.unit}",
        f"{theirs[0]}: {number(theirs[1])} {answer.unit}",
        f"**{number(answer.ratio)}**",
        least if least == greatest else f"{least}–{greatest}",
        asked,
        f"`{answer.command}`",
    ]
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def _settings(answer: Answer) -> str:
    return f"- **{answer.title}**: " + ". ".join(f"{name}: {text}" for name, text in answer.settings.items()) + "."


def _where(run: Run, command: str, *, alone: bool) -> str:
    machine = run.machine
    versions = ", ".join(f"{name} {version}" for name, version in run.versions.items())
    what = "" if alone else f"`{command}`: "
    return (
        f"{what}{run.date} UTC, commit {run.commit}: {machine['cores']} cores ({machine['cpu']}), "
        f"{machine['memory_gib']} GiB, load {machine['load']} before the run; {versions}.\n"
    )


def number(value: float) -> str:
    """Three digits that count, the thousands apart."""
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{round(value, 2 - math.floor(math.log10(abs(value)))):,.{digits}f}"


def _said(group: str, answers: list[Answer]) -> str:
    return f"{group}: " + "; ".join(f"{answer.title}, ratio {number(answer.ratio)}" for answer in answers)


def _chart(group: str, answers: list[Answer]) -> Drawing:
    """For each unit a scale of its own, with a pair of points for each question in it, Bindery's lit."""
    units = list(dict.fromkeys(answer.unit for answer in answers))
    step = 2 * _BAR + 40
    drawing = Drawing(group, _said(group, answers), _WIDTH, step * len(answers) + _SCALE * len(units) + 6)
    y = 20.0
    for unit in units:
        y = _of_unit(drawing, unit, [answer for answer in answers if answer.unit == unit], y, step)
    return drawing


def _of_unit(drawing: Drawing, unit: str, answers: list[Answer], top: float, step: int) -> float:
    """The questions of one unit from a height on, above their scale; the height below it.

    The scale is logarithmic, so that what stands for a value is its place and not a length from some beginning.
    """
    values = [value for answer in answers for value in answer.figures.values()]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    high += low == high

    def place(value: float) -> float:
        return round(_LEFT + (_WIDTH - _LEFT - _VALUE) * (math.log10(value) - low) / (high - low), 1)

    bottom = top + step * len(answers)
    for power in range(low, high + 1):
        x = place(10.0**power)
        drawing.rule(x, top + 4, bottom - 10)
        drawing.words(x, bottom + 6, [f"{10.0**power:,g}" if power < 0 else f"{10**power:,}"], "small quiet middle")
    drawing.words(_LEFT, bottom + 24, [f"{unit}, logarithmic scale"])
    for number_of, answer in enumerate(answers):
        y = top + step * number_of
        drawing.words(4, y, [f"{answer.title}: {number(answer.ratio)}"], "name")
        for line, (name, value) in enumerate(answer.figures.items()):
            middle = y + 8 + line * (_BAR + 4)
            drawing.words(_LEFT - 14 - width_of(name), middle + 11, [name])
            drawing.bar(place(value) - 5, middle + 2, 10, 10, kind="soft" if line else "lit")
            drawing.words(place(value) + 12, middle + 11, [f"{number(value)} {unit}"])
    return bottom + _SCALE


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8"), section()), "utf-8")
    drawn = charts()
    for old in FOLDER.glob("bench-*.svg"):
        if old.stem not in drawn:
            old.unlink()
    for name, svg in drawn.items():
        (FOLDER / f"{name}.svg").write_text(svg, "utf-8")
