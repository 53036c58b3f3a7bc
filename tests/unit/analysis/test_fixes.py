"""What is mended without doubt changes no routing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bindery.router.analysis import analyse
from bindery.router.analysis.finding import Finding, Subject
from bindery.router.analysis.fixes import superfluous
from bindery.router.reference import topic_matches
from tests.unit.analysis.build import Broker

WORDS = st.sampled_from(["a", "b", "*", "#"])
PATTERNS = st.lists(WORDS, min_size=1, max_size=3).map(".".join)
KEYS = st.lists(st.sampled_from(["a", "b", "c"]), min_size=0, max_size=4).map(".".join)


@given(st.lists(PATTERNS, min_size=2, max_size=8, unique=True), st.lists(KEYS, min_size=20, max_size=20))
def test_every_message_still_meets_a_binding(patterns: list[str], keys: list[str]) -> None:
    broker = Broker().exchange("x", "topic").queues("q")
    bindings = {(stored := broker.bind("x", "q", pattern)).id: stored for pattern in patterns}
    found = analyse(broker.topology).findings
    gone = superfluous(found)
    kept = [binding.routing_key for number, binding in bindings.items() if number not in gone]
    assert kept
    for key in keys:
        if any(topic_matches(pattern, key) for pattern in patterns):
            assert any(topic_matches(pattern, key) for pattern in kept), (key, patterns, kept)
    for number in gone:
        broker.editor.unbind(bindings[number])
    assert not superfluous(analyse(broker.topology).findings)


def test_of_a_circle_one_stays() -> None:
    def covered(by: int, number: int) -> Finding:
        subject, other = (Subject("binding", "/", "x -> q []", one) for one in (number, by))
        return Finding("BT101", "", subject, (other,))

    assert set(superfluous([covered(2, 1), covered(3, 2), covered(1, 3)])) == {1, 2}
    assert set(superfluous([covered(2, 1), covered(3, 2), covered(4, 3)])) == {1, 2, 3}
