"""The exchange types, one module each: all that there is to know of a type stands there, behind `ExchangeType`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bindery.router.exchanges.consistent_hash import ConsistentHash
from bindery.router.exchanges.direct import Direct
from bindery.router.exchanges.exchange_type import Choice, ExchangeType, Miss
from bindery.router.exchanges.fanout import Fanout
from bindery.router.exchanges.headers import Headers
from bindery.router.exchanges.modulus_hash import ModulusHash
from bindery.router.exchanges.topic import Topic

EXCHANGE_TYPES: Final[Mapping[str, ExchangeType[Any]]] = {
    "direct": Direct(),
    "fanout": Fanout(),
    "headers": Headers(),
    "topic": Topic(),
    "x-consistent-hash": ConsistentHash(),
    "x-modulus-hash": ModulusHash(),
}

__all__ = ["EXCHANGE_TYPES", "Choice", "ExchangeType", "Miss"]
