"""Which state of the topology a question is about: the newest, that of a version, or that of a time."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import Depends, Query

from bindery.api.deps import Plane
from bindery.api.errors import bad_request
from bindery.router.model import Topology

Version = Annotated[int | None, Query(description="a topology version; the newest by default", ge=0)]
At = Annotated[
    str | None,
    Query(description="ISO 8601, UTC without a zone: the version that was the newest then", examples=["2026-01-31"]),
]


def read_moment(text: str, name: str) -> datetime:
    """An ISO 8601 time as a query parameter; raises Refusal for anything else."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        hint = "; a + in a query is written %2B" if " " in text else ""
        raise bad_request(f"{name} is no ISO 8601 time{hint}") from None


def topology_as_of(plane: Plane, version: Version = None, at: At = None) -> Topology:
    """The topology of `?version=` or `?at=`; raises NotFound for one that there never was."""
    if version is not None and at is not None:
        raise bad_request("version and at exclude each other")
    return plane.topologies.load(version=version, at=None if at is None else read_moment(at, "at"))


#: The topology that a GET is about. It stands after the caller in a signature: strangers learn nothing.
AsOf = Annotated[Topology, Depends(topology_as_of)]
