"""Streams that no job has, told by how their names begin, and the claims of the plans that they carry out."""

from __future__ import annotations

from typing import Final

#: Redrives of a vhost, and moves, copies and dead letters out of a queue: each is its own app id, and carries out
#: plans. Their rows repeat messages that other streams brought.
REDRIVES: Final = "redrive:"
MOVES: Final = "move:"
COPIES: Final = "copy:"
DEAD_LETTERS: Final = "limits:"
OF_PLANS: Final = (REDRIVES, MOVES, COPIES, DEAD_LETTERS)
_CLAIM: Final = ":mark"


def why_no_job(name: str) -> str | None:
    """Why no job may have a stream of that name; None when it may.

    Rows of such a stream, of a job of an earlier version too, count as repeated ones: `replay` leaves them out.
    """
    taken = next((prefix for prefix in OF_PLANS if name.startswith(prefix)), None)
    return None if taken is None else f"names that begin with {taken!r} are those of moves, copies, redrives and limits"


def claim_of(stream: str) -> str:
    """The transaction identifier by which a stream's plan is claimed, in the table whose rows it is about."""
    return f"{stream}{_CLAIM}"


def claimed_stream(app_id: str) -> str | None:
    """The stream of plans whose claim a transaction identifier is; None for any other identifier."""
    return app_id.removesuffix(_CLAIM) if app_id.startswith(OF_PLANS) and app_id.endswith(_CLAIM) else None
