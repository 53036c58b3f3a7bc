"""The mark of a destination that is not whole yet: `copy.json`, which keeps every other command away."""

from __future__ import annotations

import json
import secrets
from datetime import UTC, datetime
from typing import Any

from bindery.router.errors import Refused
from bindery.store import effects
from bindery.store.paths import COPY_MARK
from bindery.store.places import at


class Marker:
    """The mark of one destination, and whose it is."""

    def __init__(self, root: str, source: str) -> None:
        self._root = at(root)
        self._place = at(root, COPY_MARK)
        self._source = source
        self._run = secrets.token_hex(8)

    def check_free(self) -> bool:
        """Whether a copy of the same source has begun here; raises Refused when anything else is here."""
        with effects.looking(self._root):
            content = self._place.read()
            if content is None:
                if self._root.files() or self._root.folders():
                    raise Refused(
                        f"{self._root} is not empty",
                        where=str(self._root),
                        hint="copy to a folder or prefix that is not there yet",
                    )
                return False
        begun = self._of(content).get("source")
        if begun != self._source:
            raise Refused(
                f"{self._root} is a copy of {begun} that is not whole",
                where=str(self._place),
                hint="go on with that one, or remove it",
            )
        return True

    def claim(self) -> None:
        """Make the destination this run's; one that goes on there meanwhile stops. Raises StorageFailed."""
        said = {"source": self._source, "begun": datetime.now(UTC).isoformat(timespec="seconds"), "run": self._run}
        effects.make_folder(self._root)
        effects.replace(self._place, json.dumps(said).encode())

    def check(self) -> None:
        """Raise Refused when another run has claimed the destination since."""
        content = effects.read(self._place)
        if content is None or self._of(content).get("run") != self._run:
            raise Refused(
                f"another `bindery copy` goes on with {self._root}",
                where=str(self._place),
                hint="this one has ended; what it has copied is used",
            )

    def release(self) -> None:
        """Say that the destination is whole."""
        self.check()
        effects.remove(self._place)

    def _of(self, content: bytes) -> dict[str, Any]:
        try:
            found = json.loads(content)
        except ValueError:
            found = None
        return found if isinstance(found, dict) else {}  # torn by a machine that went down: of nobody
