"""The exchange types, one module each behind one protocol: compile bindings, then match messages to rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bindery.router.exchanges.direct import compile_direct
from bindery.router.exchanges.exchange_type import Compile
from bindery.router.exchanges.fanout import compile_fanout
from bindery.router.exchanges.headers import compile_headers
from bindery.router.exchanges.topic import compile_topic

#: How the bindings of an exchange type become a matcher.
EXCHANGE_TYPES: Final[Mapping[str, Compile]] = {
    "direct": compile_direct,
    "fanout": compile_fanout,
    "headers": compile_headers,
    "topic": compile_topic,
}

__all__ = ["EXCHANGE_TYPES"]
