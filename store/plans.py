"""What a change would do to a topology: the objects, the queues that are emptied, and the messages that go."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bindery.router.declarations import TopologyEditor
from bindery.router.definitions import Report
from bindery.router.errors import BinderyError
from bindery.router.proposal import Change
from bindery.store.comparison import as_page
from bindery.store.history import ObjectChange, changes_between
from bindery.store.paths import DataDir
from bindery.store.tables import count_rows


@dataclass(slots=True)
class Plan:
    """What a change would do: the objects, the queues that are emptied because they are declared anew, the report.

    `rows` are those that queues hold which go or are emptied: (vhost, queue) -> number.
    """

    editor: TopologyEditor
    changes: Sequence[ObjectChange]
    emptied: Sequence[tuple[str, str]]
    report: Report
    rows: dict[tuple[str, str], int] = field(default_factory=dict)

    @property
    def changes_something(self) -> bool:
        """Whether there is anything to make."""
        return bool(self.changes or self.emptied)

    def essence(self) -> object:
        """What two plans have in common that do the same: everything but the ids of bindings and diverts."""
        stated = [one.as_data() for one in self.changes]
        for one in stated:
            for state in (one["before"], one["after"]):
                if state is not None and state.pop("id", None) is not None and one["kind"] == "binding":
                    one["name"] = ""
        return sorted(json.dumps(one, sort_keys=True) for one in stated), sorted(self.emptied)

    def as_data(self) -> dict[str, Any]:
        """JSON-ready data: the changes as in `bindery topology diff`, and messages that go."""
        return as_page(self.changes, limit=len(self.changes)) | {
            "emptied": [{"vhost": vhost, "name": name} for vhost, name in self.emptied],
            "messages": [{"vhost": vhost, "queue": name, "messages": n} for (vhost, name), n in self.rows.items()],
            "without_effect": self.report.without_effect,
        }


def planned(editor: TopologyEditor, change: Change) -> Plan:
    """Make the change through an editor; raises DefinitionsRefused."""
    before = replace(editor.topology)
    report = change.carry_out(editor)
    dropped = {key[1:] for key in editor.dropped if key[0] == "queue"}
    emptied = sorted(dropped & before.queues.keys() & editor.topology.queues.keys())
    return Plan(editor, changes_between(before, editor.topology), emptied, report)


def rows_that_go(folder: DataDir, plan: Plan) -> dict[tuple[str, str], int]:
    """The messages that go with queues: (vhost, queue) -> number."""
    gone = [one.key[1:] for one in plan.changes if one.key[0] == "queue" and one.after is None]
    found = {}
    for vhost, name in (*gone, *plan.emptied):
        try:
            found[vhost, name] = count_rows(folder, vhost, name)
        except BinderyError:
            continue  # a table that cannot be read keeps nobody from deleting its queue
    return found
