"""Regular expressions from users, matched in time linear in the text (RE2 syntax; no backtracking)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import re2

from bindery.router.errors import InvalidInput

#: Longest expression, in characters, and the memory that its program may take.
MAX_LENGTH: Final = 1_000
MAX_MEMORY: Final = 1 << 20


class Regex:
    """A compiled expression; `found_in` is a search, anchored only where the expression says so."""

    __slots__ = ("_compiled", "text")

    def __init__(self, text: str, *, ignore_case: bool = False) -> None:
        """Raises InvalidInput for an expression that is malformed, too long, or not linear (backreferences)."""
        self.text = text
        if len(text) > MAX_LENGTH:
            raise InvalidInput(f"a regular expression of {len(text)} characters", hint=f"at most {MAX_LENGTH}")
        options = re2.Options()
        options.case_sensitive = not ignore_case
        options.log_errors = False
        options.max_mem = MAX_MEMORY
        try:
            self._compiled: Any = re2.compile(text, options)
        except (re2.error, ValueError) as error:
            cause = error.args[0] if error.args else error
            shown = cause.decode("utf-8", "replace") if isinstance(cause, bytes) else str(cause)
            raise InvalidInput(f"not a regular expression: {shown}", hint="the syntax is RE2's") from None

    def found_in(self, text: str) -> bool:
        """Whether the expression matches somewhere in the text."""
        return self._compiled.search(text) is not None

    def replaced(self, text: str, by: str) -> str:
        r"""The text with every match replaced; `\1` in the replacement is the first group."""
        result: str = self._compiled.sub(by, text)
        return result


@lru_cache(maxsize=4_096)
def regex(text: str) -> Regex:
    """The expression, compiled once per process."""
    return Regex(text)
