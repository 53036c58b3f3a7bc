"""Totals of the manifest that maintenance has kept: a first look begins with them, and not with the first batch.

`DIR/totals.json` says which version of the manifest they are of, by the digest of that version's entry in the log. What
does not fit the manifest, or cannot be read, counts as not there: it knows nothing that the manifest does not say.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields
from typing import Any, Final

from bindery.store import effects
from bindery.store.log import entry_of
from bindery.store.paths import DataDir
from bindery.store.places import Place, at
from bindery.store.totals import ManifestTotals, Totals

_NAME: Final = "totals.json"
#: Of the form of the file; another one is not read.
_FORMAT: Final = 2


def manifest_totals(data: DataDir) -> ManifestTotals:
    """The totals of a data directory, from those that are kept on. Raises StorageFailed."""
    return ManifestTotals(data.manifest, kept=read(data.manifest))


def keep(manifest: str) -> None:
    """Keep the totals of a manifest as it is now. Raises UnsupportedTable, and StorageFailed."""
    followed = ManifestTotals(manifest, kept=read(manifest))
    totals = followed.totals()
    digest = _digest(manifest, followed.version)
    if digest is None:
        return
    stated = {name: [[key, value] for key, value in counts.items()] for name, counts in vars(totals).items()}
    kept = {"format": _FORMAT, "version": followed.version, "entry": digest, "totals": stated}
    effects.replace(_place(manifest), json.dumps(kept, separators=(",", ":")).encode(), sync=False)


def read(manifest: str) -> tuple[int, Totals] | None:
    """The version of a manifest of which totals are kept, and these; None without any that fit."""
    content = effects.read(_place(manifest))
    if content is None:
        return None
    try:
        kept = json.loads(content)
        if kept["format"] != _FORMAT or kept["entry"] != _digest(manifest, int(kept["version"])):
            return None
        return int(kept["version"]), _totals(kept["totals"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _totals(stated: dict[str, Any]) -> Totals:
    totals = Totals()
    for one in fields(totals):
        getattr(totals, one.name).update({_plain(key): _plain(value) for key, value in stated[one.name]})
    return totals


def _plain(value: Any) -> Any:
    """A key or a value as it was before it was JSON, which has lists for tuples."""
    return tuple(value) if isinstance(value, list) else value


def _digest(manifest: str, version: int) -> str | None:
    """What tells a version of a manifest from every other one, also of one that was restored since."""
    entry = effects.read(entry_of(manifest, version))
    return None if entry is None else hashlib.blake2b(entry, digest_size=16).hexdigest()


def _place(manifest: str) -> Place:
    return at(manifest).parent / _NAME
