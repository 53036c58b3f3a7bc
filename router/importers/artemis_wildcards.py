"""Addresses of Artemis with wildcards (user manual, "Wildcard syntax", "Customizing the syntax")."""

from __future__ import annotations

import itertools
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wildcards:
    """How addresses are split into words, and which words stand for others."""

    routed: bool = True
    delimiter: str = "."
    any_words: str = "#"
    single_word: str = "*"

    def is_pattern(self, address: str) -> bool:
        """Whether an address stands for others."""
        return self.routed and bool({self.any_words, self.single_word} & set(address.split(self.delimiter)))

    def matches(self, pattern: str, address: str) -> bool:
        """Whether an address is among those that a pattern stands for: `*` is one word, `#` any number of them."""
        words = address.split(self.delimiter)
        reached = [True] + [False] * len(words)
        for part in pattern.split(self.delimiter):
            if part == self.any_words:
                reached = list(itertools.accumulate(reached, lambda before, here: before or here))
            else:
                passes = [part in (self.single_word, word) for word in words]
                reached = [False] + [before and fits for before, fits in zip(reached, passes, strict=False)]
        return reached[-1]

    def key(self, pattern: str) -> str | None:
        """The binding key of a topic exchange that says the same; None where words cannot be told apart there."""
        words = pattern.split(self.delimiter)
        plain = [word for word in words if word not in (self.any_words, self.single_word)]
        if any("." in word or word in ("#", "*") for word in plain):
            return None
        return ".".join({self.any_words: "#", self.single_word: "*"}.get(word, word) for word in words)

    def example(self, pattern: str) -> str:
        """An address that the pattern stands for."""
        wild = (self.any_words, self.single_word)
        return self.delimiter.join("any" if word in wild else word for word in pattern.split(self.delimiter))
