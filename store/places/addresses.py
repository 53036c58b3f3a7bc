"""Addresses: which text is a path and which is a URL."""

from __future__ import annotations

import os
import re
from typing import Final

from bindery.store.places.local import LocalPlace
from bindery.store.places.place import Place
from bindery.store.places.remote import RemotePlace
from bindery.store.places.stores import SCHEMES

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")


def scheme_of(address: str) -> str | None:
    """The scheme of a URL in small letters; None for a path."""
    found = _URL.match(address)
    return None if found is None else found[1].lower()


def normalised(address: str) -> str:
    """A URL as it is used everywhere: one name for each scheme, no slash at the end; a path stays as it is."""
    scheme = scheme_of(address)
    if scheme is None:
        return address
    rest = address.partition(":")[2]
    return f"{'s3' if scheme in ('s3a', 's3n') else scheme}:{rest}".rstrip("/")


def at(address: str | os.PathLike[str] | Place, *names: str) -> Place:
    """The place of that address, or of names below it; a URL is `normalised`."""
    text = address.address if isinstance(address, Place) else os.fspath(address)
    full = "/".join((text, *names))
    if "://" in full and full.partition("://")[0] in SCHEMES:
        return RemotePlace(full)
    return LocalPlace(full)


def delta_options(address: str) -> dict[str, str]:
    """The storage options with which deltalake opens a table at that address; raises OSError."""
    place = at(address)
    return place.store.delta_options() if isinstance(place, RemotePlace) else {}


def hadoop_address(address: str) -> str:
    """The address by which Spark finds the same place."""
    own = normalised(address)
    return f"s3a:{own.removeprefix('s3:')}" if own.startswith("s3://") else own
