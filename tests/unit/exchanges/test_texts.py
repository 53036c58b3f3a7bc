"""Tables of texts and numbers in flat arrays."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from bindery.router.matching.texts import Texts, TextTable
from bindery.router.native import kernels
from tests.unit.strategies import texts


@given(st.lists(texts, unique=True, max_size=20), st.lists(texts, max_size=20), st.integers(0, 3))
@settings(deadline=None)
def test_a_table_finds_what_a_dict_finds(known: list[str], asked: list[str], skipped: int) -> None:
    table = pickle.loads(pickle.dumps(TextTable.of(known)))  # noqa: S301  # our own bytes
    array = pa.array(asked, pa.string())[skipped:]  # a slice: offsets that do not start at 0
    found = table.find(Texts.of(array), np.arange(len(array)))
    places = {text: number for number, text in enumerate(known)}
    assert found.tolist() == [places.get(text, -1) for text in array.to_pylist()]


@given(st.lists(texts, max_size=5))
@settings(deadline=None)
def test_texts_read_back(several: list[str]) -> None:
    for array in (pa.array(several, pa.string()), pa.array(several, pa.large_string())):
        held = Texts.of(array)
        assert [held.text(number) for number in range(len(held))] == several


def test_each_kernel_is_compiled_for_one_kind_of_arguments() -> None:
    """A second signature would cost every new machine a second compilation."""
    from bindery.router.message import Message
    from tests.unit.exchanges.matching import exchange_router, matched
    from tests.unit.exchanges.test_headers import publish

    for kind in ("direct", "topic", "fanout", "headers"):
        router = pickle.loads(pickle.dumps(exchange_router(kind, [("a.*", {"a": 1}), ("", {})])))  # noqa: S301
        matched(router, [publish(a=1), Message(exchange="x", routing_key="a.b", cc=("c",)), Message()])
        matched(router, [])
    for name in ("bindery.router.matching.kernels", "bindery.router.engine.kernels"):
        module = kernels(name)
        compiled = {item: len(found.signatures) for item, found in vars(module).items() if hasattr(found, "signatures")}
        assert set(compiled.values()) <= {0, 1}, compiled
