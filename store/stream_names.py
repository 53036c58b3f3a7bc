"""Streams that no job has, told by how their names begin, and the claims of the plans that they carry out."""

from __future__ import annotations

from typing import Final

#: Redrives of a vhost, and moves and copies out of a queue: each is its own app id, and carries out plans. Their rows
#: repeat messages that other streams brought.
REDRIVES: Final = "redrive:"
MOVES: Final = "move:"
COPIES: Final = "copy:"
OF_PLANS: Final = (REDRIVES, MOVES, COPIES)
_CLAIM: Final = ":mark"


def claim_of(stream: str) -> str:
    """The transaction identifier by which a stream's plan is claimed, in the table whose rows it is about."""
    return f"{stream}{_CLAIM}"


def claimed_stream(app_id: str) -> str | None:
    """The stream of plans whose claim a transaction identifier is; None for any other identifier."""
    return app_id.removesuffix(_CLAIM) if app_id.startswith(OF_PLANS) and app_id.endswith(_CLAIM) else None
