"""Where the objects of documents stand in them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from bindery.router.model import Binding, Sequence, Topology

if TYPE_CHECKING:
    from bindery.router.analysis import Finding, Subject
    from bindery.router.definitions.document import Entry
    from bindery.router.proposal import Change

_IGNORE: Final = re.compile(r"(?:^|\s)#\s*bindery:\s*ignore(?:\s+([A-Za-z0-9, ]+))?\s*$")


class Positions:
    """The entries of the documents of a change, by the objects that findings are about."""

    def __init__(self, document: Any, change: Change, topology: Topology) -> None:
        """The change is that of the document, and the topology what it made of nothing."""
        from bindery.router.analysis.finding import subject_of  # noqa: PLC0415  # `bindery --help` does not wait for it

        self._document = document
        self._topology = topology
        self._found: dict[tuple[str, str, str], list[Entry]] = defaultdict(list)
        for entry in change.definitions.entries:
            if isinstance(entry.item, Sequence):
                continue  # no document states it
            subject = subject_of(entry.item)
            self._found[subject.kind, subject.vhost, subject.name].append(entry)

    def entry(self, subject: Subject) -> Entry | None:
        """The entry that states the object of a finding; None for one that no document states."""
        found = self._found.get((subject.kind, subject.vhost, subject.name), [])
        binding = None if subject.id is None else self._topology.bindings.get(subject.id)
        if isinstance(binding, Binding):  # of those with the same ends and key
            found = [one for one in found if getattr(one.item, "arguments", None) == binding.arguments] or found
        return found[0] if found else None

    def is_ignored(self, finding: Finding) -> bool:
        """Whether a comment of a YAML document says that the finding is meant so.

        `# bindery: ignore BT101` (or beginnings of codes, or none for all of them) at the end of the line on which the
        object begins, or alone on the line before.
        """
        entry = self.entry(finding.subject)
        if entry is None or entry.source is None or entry.source.is_json:
            return False
        line = entry.source.line(entry.path)
        before = entry.source.text_of(line - 1).strip()
        for text in (entry.source.text_of(line), before if before.startswith("#") else ""):
            said = _IGNORE.search(text)
            if said is not None:
                codes = [code.strip().upper() for code in (said[1] or "").split(",") if code.strip()]
                return not codes or finding.code.startswith(tuple(codes))
        return False

    def without(self, subjects: Iterable[Subject]) -> Any:
        """The value of the document, which is one, without the bindings that those findings are about."""
        paths = {entry.path for subject in subjects if (entry := self.entry(subject)) is not None}
        document = self._document
        prefix = "definitions." if "definitions" in document else ""
        inside = document["definitions"] if prefix else document
        if "bindings" not in inside:
            return document
        kept = [one for n, one in enumerate(inside["bindings"]) if f"{prefix}bindings[{n}]" not in paths]
        mended = {**inside, "bindings": kept}
        return {**document, "definitions": mended} if prefix else mended

    def line(self, subject: Subject) -> int | None:
        """The line, from 1, on which the object of a finding begins."""
        entry = self.entry(subject)
        return None if entry is None or entry.source is None else entry.source.line(entry.path)
