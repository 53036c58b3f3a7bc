"""An explanation, given as data, for people: a tree of visits, steps and verdicts."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator
from typing import Any, Final

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from bindery.router.error_text import counted, visible

#: How a step's verdict is shown: a sign, a colour and words.
_VERDICTS: Final = {
    "delivered": ("✓", "green", "delivered"),
    "forwarded": ("→", "cyan", "led on"),
    "filter": ("✗", "red", "its filter is not true"),
    "queue-filter": ("✗", "red", "the queue's filter is not true"),
    "exclusive-divert": ("✗", "yellow", "an exclusive divert took the message"),
    "too-many-forms": ("✗", "red", "the message has too many forms"),
}


def show(report: dict[str, Any], out: Console, *, everything: bool) -> None:
    """Render an explanation for people: everything, or what concerns the queues asked about."""
    for answer in report["why_not"]:
        out.print(_answer(answer))
    visits = report["visits"]
    reached = {answer["queue"] for answer in report["why_not"] if answer["reached"]}
    if "suggestions" in report:
        out.print(_suggestions(report["suggestions"]))
        reached |= {report["suggestions"]["queue"]}
    if not everything:
        visits = _leading_to(reached, visits)
    tree = _path(report, visits)
    if not everything and (others := _steps(report["visits"]) - _steps(visits)):
        tree.add(Text(f"and {counted(others, 'further step')} (--all)", "dim"))
    out.print(tree)


def _steps(visits: list[dict[str, Any]]) -> int:
    return sum(len(visit["steps"]) + visit["further_steps"] for visit in visits)


def _leading_to(queues: set[str], visits: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The visits on the ways to some queues, each with the steps on these ways alone."""
    ways: dict[int, list[dict[str, Any]]] = {}
    # a step may lead back to an exchange that was visited before: until nothing is new
    before = None
    while before != ways:
        before = dict(ways)
        for visit in visits:
            if steps := [step for step in visit["steps"] if _leads_to(step, queues, ways)]:
                ways[visit["number"]] = steps
    alone = {"further_steps": 0, "unmatched": 0, "not_evaluated": 0}
    return [visit | alone | {"steps": ways[visit["number"]]} for visit in visits if visit["number"] in ways]


def _leads_to(step: dict[str, Any], queues: set[str], ways: Container[int]) -> bool:
    if step["verdict"] == "forwarded":
        return step["visit"] in ways
    return step["verdict"] == "delivered" and step["destination"] in queues


def _answer(answer: dict[str, Any]) -> Tree:
    name = visible(answer["queue"])
    if answer["reached"]:
        return Tree(Text(f"queue {name} gets the message", "green"))
    tree = Tree(Text(f"queue {name} does not get the message", "bold red"))
    for cause in answer["causes"]:
        branch = tree.add(Text(visible(cause["message"])))
        for line in _details(cause):
            branch.add(Text(visible(line), "dim"))
    if answer["further_causes"]:
        tree.add(Text(f"and {counted(answer['further_causes'], 'further way')} that did not lead there", "dim"))
    return tree


def _suggestions(found: dict[str, Any]) -> Tree:
    """What would bring the message to a queue, each change with the document that makes it."""
    name = visible(found["queue"])
    if found["reached"]:
        return Tree(Text(f"queue {name} gets the message as it is", "green"))
    tree = Tree(Text(f"What would bring the message to queue {name}", "bold"))
    for change in found["changes"]:
        branch = tree.add(Text(visible(f"{counted(change['objects'], 'object')}: {change['says']}")))
        _differences(branch, change)
        branch.add(Text(visible(json.dumps(change["change"], ensure_ascii=False)), "dim"))
    for message in found["messages"]:
        branch = tree.add(Text(visible(f"another message: {message['says']}")))
        _differences(branch, message)
    if not (found["changes"] or found["messages"]):
        tree.add(Text("nothing small was found", "dim"))
    return tree


def _differences(branch: Tree, suggestion: dict[str, Any]) -> None:
    for verb, queues in (("comes further to", suggestion["gained"]), ("no longer comes to", suggestion["lost"])):
        if queues:
            branch.add(Text(visible(f"it {verb} {', '.join(queues)}"), "yellow"))


def _details(cause: dict[str, Any]) -> Iterator[str]:
    if cause["path"]:
        yield "the way: " + ", then ".join(_link(link) for link in cause["path"])
    for verdict in cause.get("filters", ()):
        yield f"{verdict['argument']}: {verdict['filter']}"


def _path(report: dict[str, Any], visits: list[dict[str, Any]]) -> Tree:
    version = f"topology version {report['topology_version']}" + (" with the proposed change" * report["proposed"])
    tree = Tree(Text(f"The message under {version}", "bold"))
    if "on_record" in report:
        record = report["on_record"]
        place = f"queue {record['queue']}" if record["queue"] is not None else f"unroutable, {record['reason']}"
        if record["journal"]:
            place = "in the journal alone" + (f", {record['reason']}" if record["reason"] is not None else "")
        tree.add(Text(visible(f"on record as {record['row']}: {place}"), "dim"))
    for visit in visits:
        _visit(tree, visit)
    for form in report.get("forms", ()):
        said = json.dumps(form["message"], ensure_ascii=False)
        tree.add(Text(visible(f"form {form['number']} in {', '.join(form['queues'])}: {said}"), "magenta"))
    queues = report["queues"]
    if queues:
        tree.add(Text("queues: " + visible(", ".join(queues)), "bold green"))
    else:
        lost = report["unroutable"]
        detail = f" ({lost['detail']})" if lost["detail"] else ""
        tree.add(Text(visible(f"unroutable: {lost['reason']}, {lost['disposition']}{detail}"), "bold red"))
    return tree


def _visit(tree: Tree, visit: dict[str, Any]) -> None:
    keys = ", ".join(repr(key) for key in visit["keys"])
    came = ", ".join(_arrival(arrival) for arrival in visit["arrivals"])
    name = visit["exchange"] or "(default)"
    plural = "" if len(visit["keys"]) == 1 else "s"
    came += f", changed: form {visit['form']}" if "form" in visit else ""
    mode = f", under {visit['compat']}" if "compat" in visit else ""
    head = f"{visit['number']}. {visit['type']} exchange {name}, key{plural} {keys} ({came}){mode}"
    branch = tree.add(Text(visible(head), "bold"))
    if choice := visit.get("choice"):
        chosen = f"{choice['hashed']} hashes to {choice['hash']}: bucket {choice['bucket']} of {choice['buckets']}"
        branch.add(Text(visible(chosen), "dim"))
    for step in visit["steps"]:
        sign, colour, words = _VERDICTS[step["verdict"]]
        onward = f" {step['visit']}" if "visit" in step else ""
        line = branch.add(Text(visible(f"{sign} {_link(step)}: {words}{onward}"), colour))
        _changes(line, step)
        if switches := step.get("switches"):
            line.add(Text(f"{visit['compat']} decides: {', '.join(switches)}", "dim"))
        for verdict in step["filters"]:
            line.add(Text(visible(f"{verdict['argument']} is {verdict['result']}: {verdict['filter']}"), "dim"))
            for culprit in verdict["culprits"]:
                line.add(Text(visible(culprit["message"])))
    if visit["further_steps"]:
        branch.add(Text(f"and {counted(visit['further_steps'], 'further step')}", "dim"))
    if visit["unmatched"]:
        verb = "does" if visit["unmatched"] == 1 else "do"
        branch.add(Text(f"{counted(visit['unmatched'], 'binding')} {verb} not match", "dim"))
    if visit["not_evaluated"]:
        unseen = counted(visit["not_evaluated"], "binding")
        branch.add(Text(f"{unseen} not looked at: an exclusive divert fired", "yellow"))


def _changes(line: Tree, step: dict[str, Any]) -> None:
    """What a step has made of the message, field by field."""
    change = step.get("transform")
    if change is None:
        return
    for one in change["changes"]:
        values = (one["before"], one["after"])
        before, after = ("nothing" if value is None else json.dumps(value, ensure_ascii=False) for value in values)
        line.add(Text(visible(f"{one['field']}: {before} → {after}"), "magenta"))
    if not change["changes"]:
        line.add(Text("its transformation changes nothing", "dim"))
    if change["left_out"]:
        line.add(Text(f"{counted(change['left_out'], 'statement')} left out: run-time trouble", "yellow"))


def _arrival(arrival: dict[str, Any]) -> str:
    if arrival["kind"] == "publish":
        return "published there"
    number = f" {arrival['id']}" if "id" in arrival else ""
    return f"from {arrival['visit']} by {arrival['kind']}{number}"


def _link(link: dict[str, Any]) -> str:
    target = f"{link['destination_type']} {link['destination'] or '(default)'}"
    source = link["source"] or "(default)"
    if link["kind"] == "divert":
        return f"divert {link['name']} from {source} to {target}"
    if link["kind"] == "binding":
        return f"binding {link['id']} from {source} to {target}, key {link['routing_key']!r}{_criteria(link)}"
    return f"{link['kind']} from {source} to {target}"


def _criteria(link: dict[str, Any]) -> str:
    shown = {name: value for name, value in link.get("arguments", {}).items() if not name.startswith("x-filter")}
    return f", {json.dumps(shown, ensure_ascii=False)}" if shown else ""
