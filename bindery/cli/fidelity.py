"""What becomes of each object of another broker's configuration: for people, as JSON, and as a page of HTML."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from bindery.cli.written import check_form, page, shown, write
from bindery.router.error_text import visible
from bindery.router.errors import InvalidInput

#: Outcomes, the heaviest last: what they are called, and how they look.
_OUTCOMES: Final[Mapping[str, tuple[str, str]]] = {
    "exact": ("carried over exactly", "green"),
    "different": ("carried over with a difference", "yellow"),
    "not carried over": ("not carried over", "red"),
}


def as_report(kind: str, source: str, objects: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The report as JSON-ready data: the kind and name of the source, a count per outcome, and every object."""
    counts = {outcome: sum(item["outcome"] == outcome for item in objects) for outcome in _OUTCOMES}
    return {"from": kind, "source": source, "counts": counts, "objects": list(objects)}


def check_report(path: Path, source: str) -> None:
    """Refuse a file whose name does not say which form the report is to have, or which is what is imported."""
    if Path(source).exists() and path.exists() and path.samefile(source):
        raise InvalidInput("the report would replace what is imported", where="--report", hint="another file")
    check_form(path)


def write_report(path: Path, report: Mapping[str, Any]) -> None:
    """Write the report in the form that the file's name ends with; raises InvalidInput where it cannot be written."""
    write(
        path,
        report,
        text=lambda: "".join(f"{line.plain}\n" for line in _text(report)),
        html=lambda: page(f"From {report['from']}: {report['source']}", "\n".join(_sections(report))),
    )


def show_report(report: Mapping[str, Any], out: Console) -> None:
    """Print the report for people."""
    for line in _text(report):
        out.print(line, soft_wrap=True)


def _text(report: Mapping[str, Any]) -> Iterator[Text]:
    for outcome, (title, style) in _OUTCOMES.items():
        found = [item for item in report["objects"] if item["outcome"] == outcome]
        yield Text(f"{title}: {len(found):,}", f"bold {style}")
        for item in found:
            yield Text(f"  {visible(_title(item))}")
            for note in item["notes"]:
                yield Text(f"    {visible(_said(note))}", "dim" if note["weight"] == "no effect" else "")
                if "hint" in note:
                    yield Text(f"      to do: {visible(note['hint'])}")
                if "example" in note:
                    yield Text(f"      example: {visible(_example(note['example']))}")


def summary(report: Mapping[str, Any]) -> str:
    """The counts in one line."""
    return "; ".join(f"{title}: {report['counts'][outcome]:,}" for outcome, (title, _) in _OUTCOMES.items())


def _title(item: Mapping[str, Any]) -> str:
    inside = "" if item.get("vhost") in (None, "/") else f" in {item['vhost']}"
    return f"{item['kind']} {item['name']}{inside} ({item['place']})"


def _said(note: Mapping[str, Any]) -> str:
    said = f"{note['key']}: {note['text']}" if note["key"] else str(note["text"])
    return f"{said} (nothing is missing)" if note["weight"] == "no effect" else said


def _example(example: Mapping[str, Any]) -> str:
    message = json.dumps(example["message"], ensure_ascii=False)
    return f"{message} goes there to {_queues(example['there'])}, here to {_queues(example['here'])}"


def _queues(names: Sequence[str]) -> str:
    return ", ".join(names) or "no queue"


def _sections(report: Mapping[str, Any]) -> Iterator[str]:
    yield f"<p>{shown(summary(report))}</p>"
    for outcome, (title, _) in reversed(list(_OUTCOMES.items())):
        found = [item for item in report["objects"] if item["outcome"] == outcome]
        if not found:
            continue
        yield f"<h2>{shown(title.capitalize())} ({len(found):,})</h2>"
        yield "<table><thead><tr><th>object</th><th>where</th><th>what</th></tr></thead><tbody>"
        for item in found:
            inside = "" if item.get("vhost") in (None, "/") else f" <small>in {shown(item['vhost'])}</small>"
            name = f"{shown(item['kind'])} <b>{shown(item['name'])}</b>{inside}"
            notes = "".join(f"<li>{_note(note)}</li>" for note in item["notes"])
            yield f"<tr><td>{name}</td><td><code>{shown(item['place'])}</code></td><td><ul>{notes}</ul></td></tr>"
        yield "</tbody></table>"


def _note(note: Mapping[str, Any]) -> str:
    said = shown(_said(note))
    if note["weight"] == "no effect":
        said = f'<span class="quiet">{said}</span>'
    if "hint" in note:
        said += f"<br>To do: {shown(note['hint'])}"
    if "example" in note:
        example = note["example"]
        message = shown(json.dumps(example["message"], ensure_ascii=False))
        said += (
            f"<br>Example: <code>{message}</code> goes there to {shown(_queues(example['there']))}, "
            f"here to {shown(_queues(example['here']))}"
        )
    return said
