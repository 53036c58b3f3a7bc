"""What each exchange type says of bindings and messages, against the definitions of the types."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from bindery.router.analysis.cover import Budget, covers
from bindery.router.analysis.verdicts import Verdicts
from bindery.router.declarations import TopologyEditor
from bindery.router.equality import family_equal
from bindery.router.exchanges import EXCHANGE_TYPES, ExchangeType
from bindery.router.links import Links
from bindery.router.message import Message
from bindery.router.model import EXCHANGE_TYPES as NAMES
from bindery.router.model import Binding, Exchange, Queue, Topology
from bindery.router.reference import matches
from bindery.router.values import Table

words = st.sampled_from(["a", "b", "*", "#", ""])
keys = st.lists(words, max_size=4).map(".".join)
values = st.sampled_from([None, 1, 1.0, "1", float("nan"), (1,)])
headers = st.dictionaries(st.sampled_from(["a", "b", "x-c"]), values, max_size=3)
forms = st.sampled_from(["all", "any", "all-with-x", "any-with-x"])
arguments = st.builds(lambda form, named: Table({"x-match": form, **named}), forms, headers) | headers.map(Table)
bindings = st.builds(
    lambda key, table: Binding(0, "/", "x", "q", "queue", key, table),
    keys,
    arguments,
)
messages = st.tuples(st.lists(keys, min_size=1, max_size=2), headers.map(Table))


def message_of(properties: Table) -> Message:
    return Message(application_properties=properties)


#: What hash exchanges choose depends on all bindings: test_hash_exchanges.py.
kinds = st.sampled_from([name for name in NAMES if not EXCHANGE_TYPES[name].reads_hash])


def test_every_type_that_can_be_declared_has_a_module_that_says_all() -> None:
    assert EXCHANGE_TYPES.keys() == set(NAMES)
    abstract = ExchangeType.__abstractmethods__
    assert {"asked", "matcher", "miss", "always"} == abstract
    for name, kind in EXCHANGE_TYPES.items():
        assert type(kind).__module__ == f"bindery.router.exchanges.{name.removeprefix('x-').replace('-', '_')}"
        assert not type(kind).__abstractmethods__


@given(kinds, bindings, messages)
@settings(max_examples=500)
def test_there_is_a_miss_exactly_where_there_is_no_match(
    kind: str, binding: Binding, message: tuple[list[str], Table]
) -> None:
    miss = EXCHANGE_TYPES[kind].miss(binding, message[0], message_of(message[1]))
    assert (miss is None) == matches(binding, kind, *message)
    assert miss is None or (miss.message and 0 <= miss.matched <= miss.asked)


@given(kinds, bindings, messages)
@settings(max_examples=300)
def test_always_never_and_implied_hold_for_every_message(
    kind: str, binding: Binding, message: tuple[list[str], Table]
) -> None:
    type_ = EXCHANGE_TYPES[kind]
    asked, met = type_.asked(binding), matches(binding, kind, *message)
    assert met or not type_.always(asked)
    assert not met or not type_.never(asked)
    for ref, value in type_.implied(asked).items() if met else ():
        assert family_equal(value, message[1][ref.name])


@given(kinds, st.lists(bindings, min_size=2, max_size=6), st.lists(messages, min_size=3, max_size=8))
@settings(max_examples=500)
def test_what_matches_the_narrow_one_matches_the_wide_one(
    kind: str, several: list[Binding], sent: list[tuple[list[str], Table]]
) -> None:
    type_ = EXCHANGE_TYPES[kind]
    asked = [type_.asked(binding) for binding in several]
    met = [{n for n, message in enumerate(sent) if matches(binding, kind, *message)} for binding in several]
    wider = type_.wider(list(dict.fromkeys(asked)))
    for narrow, met_by_narrow in zip(asked, met, strict=True):
        candidates = list(wider(narrow))
        assert len(candidates) == len(set(candidates))
        for wide, met_by_wide in zip(asked, met, strict=True):
            assert wide != narrow or met_by_wide == met_by_narrow
            if type_.covers(wide, narrow):
                assert met_by_narrow <= met_by_wide
                assert wide == narrow or wide in candidates


@given(kinds, st.lists(bindings, min_size=2, max_size=8), st.lists(messages, min_size=3, max_size=8))
@settings(max_examples=300)
def test_a_binding_that_the_analysis_calls_covered_decides_nothing(
    kind: str, several: list[Binding], sent: list[tuple[list[str], Table]]
) -> None:
    editor = TopologyEditor(Topology.empty())
    editor.declare_exchange(Exchange("/", "x", kind))
    editor.declare_queue(Queue("/", "q"))
    for binding in several:
        editor.bind(binding)
    links = Links(editor.topology, "/")
    found = list(covers(links, Verdicts(links), Budget()))
    assert len({cover.narrow.id for cover in found}) == len(found)
    for cover in found:
        for message in sent:
            narrow, wide = (matches(one, kind, *message) for one in (cover.narrow, cover.wide))
            assert wide or not narrow
            assert narrow == wide or not cover.equal
    # what is left out changes nothing
    left = {binding.id for binding in links.bindings} - {cover.narrow.id for cover in found}
    for message in sent:
        met = {binding.id for binding in links.bindings if matches(binding, kind, *message)}
        assert not met or met & left
