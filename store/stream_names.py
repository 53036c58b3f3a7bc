"""Streams that no job has, told by how their names begin, and the claims of those that carry out plans."""

from __future__ import annotations

from typing import Final

#: Redrives of a vhost, and moves out of a queue: each is its own app id, and carries out plans.
REDRIVES: Final = "redrive:"
MOVES: Final = "move:"
OF_PLANS: Final = (REDRIVES, MOVES)
#: Copies out of a queue.
COPIES: Final = "copy:"
#: Streams whose rows repeat messages that other streams brought.
REPEATING: Final = (*OF_PLANS, COPIES)
_CLAIM: Final = ":mark"


def claim_of(stream: str) -> str:
    """The transaction identifier by which the rows of a stream's plan are claimed, in the table that has them."""
    return f"{stream}{_CLAIM}"


def claimed_stream(app_id: str) -> str | None:
    """The stream of plans whose claim a transaction identifier is; None for any other identifier."""
    return app_id.removesuffix(_CLAIM) if app_id.startswith(OF_PLANS) and app_id.endswith(_CLAIM) else None
