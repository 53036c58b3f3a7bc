"""Every error that Bindery raises on purpose, in one tree.

    BinderyError                    base; `code`, `hint`, `where`
    ├── InvalidInput                the caller's text, record or document is wrong        (exit 2)
    │   ├── FilterError             a filter that cannot be honoured; carries a position
    │   ├── InvalidRecord           a message record that does not fit the canonical schema
    │   ├── InvalidDeclaration      a declaration that breaks a rule of the model
    │   │   └── InequivalentArgument    re-declared with other properties or arguments
    │   ├── DefinitionsRefused      a definitions document that was not applied; carries a report
    │   ├── NotFound                a named vhost, exchange, queue, binding … does not exist
    │   └── InUse                   a conditional delete whose condition does not hold
    ├── Refused                     stopped for safety; nothing was written               (exit 3)
    │   ├── AccessRefused           reserved names, the default exchange, internal exchanges
    │   ├── Fenced                  another driver owns this stream
    │   ├── CheckpointMismatch      the stream was last run with another checkpoint
    │   ├── UnusablePin             a batch is pinned to what it can no longer be routed with
    │   └── UnsupportedTable        a table this version must not read or write
    ├── CommitConflict              a bounded number of commit attempts all lost the race (exit 1)
    ├── CommitUnknown               a commit failed and nobody could read whether it took place
    ├── Stopped                     whoever asked for it has gone; what was done until then is whole
    └── StorageFailed               the disk refused: full, read-only, broken             (exit 1)

An error says what is wrong (`str(error)`), where (`where`) and what to do (`hint`).
"""

from __future__ import annotations

from typing import Any, cast


class BinderyError(Exception):
    """Base of all deliberate errors.

    `where` names the place (a key of a document, a line, a table path); `hint` says what to do.
    """

    code = "error"
    exit_code = 1

    def __init__(self, message: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint
        if hint is not None:
            self.add_note(f"hint: {hint}")  # what a traceback shows, in a notebook for example

    def as_data(self) -> dict[str, object]:
        """The error as JSON-ready data: code, message and, when known, where and hint."""
        data: dict[str, object] = {"code": self.code, "message": self.message}
        if self.where is not None:
            data["where"] = self.where
        if self.hint is not None:
            data["hint"] = self.hint
        return data


class InvalidInput(BinderyError):
    """Text, a record or a document from outside that is wrong."""

    code = "invalid_input"
    exit_code = 2


class FilterError(InvalidInput):
    """A filter refused when it is defined.

    `text` is the whole filter; `offset` and `length` count code points into it; `line` and `column`
    start at 1; `found` is the offending text; `expected` lists what could have stood there.
    """

    code = "invalid_filter"

    def __init__(
        self,
        message: str,
        *,
        text: str = "",
        offset: int = 0,
        length: int = 0,
        expected: tuple[str, ...] = (),
        where: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, where=where, hint=hint)
        self.text = text
        self.offset = offset
        self.length = length
        self.expected = expected
        if text:
            near = text[max(0, offset - 20) : offset + 20]
            self.add_note(f"line {self.line}, column {self.column} of the filter, near {near!r}")

    @property
    def line(self) -> int:
        """Line of the offending text, from 1."""
        return self.text.count("\n", 0, self.offset) + 1

    @property
    def column(self) -> int:
        """Column of the offending text in its line, in code points, from 1."""
        return self.offset - (self.text.rfind("\n", 0, self.offset) + 1) + 1

    @property
    def found(self) -> str:
        """The offending text; empty at the end of the filter."""
        return self.text[self.offset : self.offset + self.length]

    def as_data(self) -> dict[str, object]:
        """The error as JSON-ready data, with its position in the filter."""
        return super().as_data() | {
            "line": self.line,
            "column": self.column,
            "offset": self.offset,
            "length": self.length,
            "found": self.found,
            "expected": list(self.expected),
        }


class InvalidRecord(InvalidInput):
    """A message record that does not fit the canonical schema (AMQP 1.0 part 3, §3.2)."""

    code = "invalid_record"


class InvalidDeclaration(InvalidInput):
    """A declaration that breaks a rule of the model; nothing was changed."""

    code = "precondition_failed"


class InequivalentArgument(InvalidDeclaration):
    """An object was declared again with another type, property or argument."""

    code = "inequivalent_arg"


class DefinitionsRefused(InvalidInput):
    """A definitions document with conflicts or errors; nothing was changed. `report` lists them all."""

    code = "definitions_refused"

    def __init__(self, message: str, *, report: dict[str, object], where: str | None, hint: str | None) -> None:
        super().__init__(message, where=where, hint=hint)
        self.report = report

    @property
    def problems(self) -> list[dict[str, Any]]:
        """Every error and conflict of the report."""
        return [*cast(list[Any], self.report["errors"]), *cast(list[Any], self.report["conflicts"])]

    def as_data(self) -> dict[str, object]:
        """The error as JSON-ready data, with the whole report."""
        return super().as_data() | {"report": self.report}


class NotFound(InvalidInput):
    """Something named by the caller does not exist."""

    code = "not_found"


class InUse(InvalidInput):
    """A conditional delete (if-unused, if-empty) whose condition does not hold."""

    code = "in_use"


class Refused(BinderyError):
    """Stopped for safety; nothing was written."""

    code = "refused"
    exit_code = 3


class AccessRefused(Refused):
    """A reserved name, the default exchange or an internal exchange was touched."""

    code = "access_refused"
    exit_code = 2


class Fenced(Refused):
    """Another driver has committed for this stream: this one stops."""

    code = "fenced"


class CheckpointMismatch(Refused):
    """The stream was last run with another checkpoint; see `--new-epoch`."""

    code = "checkpoint_mismatch"


class UnusablePin(Refused):
    """What a batch was to be routed with cannot be had any more; see `--repin`."""

    code = "unusable_pin"


class UnsupportedTable(Refused):
    """A table that is missing, damaged, foreign, or written by a newer version."""

    code = "unsupported_table"


class CommitConflict(BinderyError):
    """A bounded number of commit attempts all lost the race."""

    code = "commit_conflict"


class CommitUnknown(BinderyError):
    """A commit failed, and whether it took place could not be read; nothing that it may refer to was deleted."""

    code = "commit_unknown"


class Stopped(BinderyError):
    """A long work that ended early because whoever asked for it has gone; what was done is whole."""

    code = "stopped"


class StorageFailed(BinderyError):
    """The storage refused an operation: a full disk, no permission, a device that fails."""

    code = "storage_failed"
