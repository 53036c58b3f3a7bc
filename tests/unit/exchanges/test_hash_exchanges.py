"""Hash exchanges: Erlang's numbers, rings and their order, refusals (RabbitMQ 3.10's plugins)."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindery.router.analysis import analyse
from bindery.router.declarations import TopologyEditor
from bindery.router.engine import Router
from bindery.router.erlang_hash import atom_hash, field_hash, keys_hash, text_field_start, text_hash
from bindery.router.errors import InvalidDeclaration
from bindery.router.explain import Explainer
from bindery.router.jump_hash import jump
from bindery.router.matching.hashed import KERNELS
from bindery.router.matching.texts import Texts
from bindery.router.message import Message, to_batch
from bindery.router.model import DEFAULT_VHOST, Binding, Exchange, Queue, Topology
from bindery.router.native import kernels
from bindery.router.values import Table
from tests.examples import examples

_27_BITS = 2**27 - 1
Bound = list[tuple[str, str]]


def editor_of(kind: str, bound: Bound, **arguments: object) -> TopologyEditor:
    """An exchange `x` that binds queues by keys."""
    editor = TopologyEditor(Topology.empty())
    named = Table({name.replace("_", "-"): value for name, value in arguments.items()})
    editor.declare_exchange(Exchange(DEFAULT_VHOST, "x", kind, arguments=named))
    for queue, key in bound:
        editor.declare_queue(Queue(DEFAULT_VHOST, queue))
        editor.bind(Binding(0, DEFAULT_VHOST, "x", queue, "queue", key))
    return editor


def queues(topology: Topology, messages: list[Message]) -> list[str | None]:
    """The queue of each message."""
    router = Router.compile(topology, DEFAULT_VHOST)
    deliveries = router.route(to_batch(messages), clock_ms=0)
    found: list[str | None] = [None] * len(messages)
    for queue in deliveries.queue.tolist():
        for row in deliveries.rows_of(queue).tolist():
            assert found[row] is None
            found[row] = router.queues[queue]
    return found


KEYS = [Message(exchange="x", routing_key=f"key{number}") for number in range(300)]


def test_hashes_and_buckets_are_those_of_erlang() -> None:
    """From Erlang/OTP 25: erlang:phash2/1, erlang:phash2/2 and rand:uniform_s/1 with exs1024."""
    assert text_hash("abcdefghijklmnopqrstuvwxyz") & _27_BITS == 21348335
    assert keys_hash(["abcdefghijklmnopqrstuvwxyz"]) & _27_BITS == 15239953
    assert keys_hash(["a", "b"]) & _27_BITS == 3094894
    assert atom_hash("undefined") & _27_BITS == 45914356
    assert field_hash("x") & _27_BITS == 14442427
    assert field_hash(5) & _27_BITS == 129380108
    assert jump(21348335, 9) == 2


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=40), min_size=1), st.integers(1, 2**31))
@examples(50)
def test_kernels_agree_with_the_hash_of_one_text(texts: list[str], buckets: int) -> None:
    native, encoded = kernels(KERNELS), Texts.encode(texts)
    every = np.arange(len(texts), dtype=np.int64)
    hashes = native.hash_texts(encoded.data, encoded.offsets, every, np.uint32(0))
    assert hashes.tolist() == list(map(text_hash, texts))
    assert native.end_lists(hashes).tolist() == [keys_hash([text]) for text in texts]
    assert native.jump(hashes, buckets).tolist() == [jump(text_hash(text), buckets) for text in texts]
    after = native.hash_texts(encoded.data, encoded.offsets, every, np.uint32(text_field_start()))
    assert after.tolist() == list(map(field_hash, texts))


def test_buckets_follow_the_order_of_declaration_and_move_down_after_a_removal() -> None:
    editor = editor_of("x-consistent-hash", [("c", "3"), ("a", "10"), ("b", "2")])
    ring = ["c"] * 3 + ["a"] * 10 + ["b"] * 2
    assert queues(editor.topology, KEYS) == [ring[jump(text_hash(one.routing_key), 15)] for one in KEYS]
    (_, removed, _) = editor.topology.bindings_from(DEFAULT_VHOST, "x")
    editor.unbind(removed)
    editor.bind(Binding(0, DEFAULT_VHOST, "x", "a", "queue", "1"))
    ring = ["c"] * 3 + ["b"] * 2 + ["a"]
    assert queues(editor.topology, KEYS) == [ring[jump(text_hash(one.routing_key), 6)] for one in KEYS]


def test_the_first_binding_to_a_destination_counts_and_lint_says_so() -> None:
    one, other = (editor_of("x-consistent-hash", [("a", "2"), ("b", "5"), *more]) for more in ([], [("a", "50")]))
    assert queues(one.topology, KEYS) == queues(other.topology, KEYS)
    (finding,) = (found for found in analyse(other.topology).findings if found.code[:4] in ("BT10", "BT11"))
    assert finding.code == "BT115"
    assert "binding 1 [2] bound the destination first" in finding.message


def test_modulus_goes_by_key_and_destination_whatever_the_order_of_declaration() -> None:
    bound = [("q10", ""), ("q2", ""), ("é", ""), ("a", "z")]
    there = queues(editor_of("x-modulus-hash", bound).topology, KEYS)
    assert there == queues(editor_of("x-modulus-hash", bound[::-1]).topology, KEYS)
    assert there == [["q10", "q2", "é", "a"][(keys_hash([one.routing_key]) & _27_BITS) % 4] for one in KEYS]


def test_all_keys_of_a_message_make_its_modulus_and_the_first_its_bucket() -> None:
    message = Message(exchange="x", routing_key="k", cc=("k", "c"), bcc=("b",))
    bound = [(f"q{number}", "1") for number in range(7)]
    expected = f"q{(keys_hash(['k', 'k', 'c', 'b']) & _27_BITS) % 7}"
    assert queues(editor_of("x-modulus-hash", bound).topology, [message]) == [expected]
    assert queues(editor_of("x-consistent-hash", bound).topology, [message]) == [f"q{jump(text_hash('k'), 7)}"]


@pytest.mark.parametrize("replaced", [False, True])
def test_a_replacement_key_is_hashed_instead_of_all_keys(replaced: bool) -> None:
    editor = editor_of("x-modulus-hash", [(f"q{number}", "") for number in range(7)])
    editor.declare_exchange(Exchange(DEFAULT_VHOST, "in", "fanout"))
    arguments = Table({"x-replacement-routing-key": "new"} if replaced else {})
    editor.bind(Binding(0, DEFAULT_VHOST, "in", "x", "exchange", "", arguments))
    message = Message(exchange="in", routing_key="k", cc=("c",), bcc=("b",))
    keys = ["new"] if replaced else ["k", "c", "b"]
    hashed = keys_hash(keys) & _27_BITS
    assert queues(editor.topology, [message]) == [f"q{hashed % 7}"]
    (said,) = Explainer(editor.topology, DEFAULT_VHOST).explain(to_batch([message]), clock_ms=0)
    choice = said.visits[1].choice
    assert choice is not None
    assert (choice.hash, choice.bucket, choice.buckets) == (hashed, hashed % 7, 7)
    assert choice.hashed == ("the key 'new'" if replaced else "the keys 'k', 'c', 'b'")


def test_messages_without_the_header_go_to_one_queue() -> None:
    bound = [(f"q{number}", "1") for number in range(7)]
    editor = editor_of("x-consistent-hash", bound, hash_header="h")
    assert set(queues(editor.topology, KEYS)) == {f"q{jump(atom_hash('undefined'), 7)}"}


@pytest.mark.parametrize(
    ("arguments", "key", "says"),
    [
        ({"hash_header": "h", "hash_property": "message_id"}, "1", "are mutually exclusive"),
        ({"hash_property": "app_id"}, "1", "Unsupported property: app_id"),
        ({"hash_header": 5}, "1", "hash-header is no text"),
        ({}, "a", 'The binding key must be an integer: <<"a">>'),
        ({}, "", 'The binding key must be an integer: <<>>'),
        ({}, 'a"b', 'The binding key must be an integer: <<"a\\"b">>'),
        ({}, "1_0", "must be an integer"),
        ({}, "٣", "must be an integer"),
        ({}, "0", "The binding key must be greater than 0"),
        ({}, "-3", "The binding key must be greater than 0"),
        ({}, str(2**31), "must not exceed 2147483647"),
    ],
)  # fmt: skip
def test_what_the_plugin_refuses_is_refused_in_its_words(arguments: dict[str, object], key: str, says: str) -> None:
    with pytest.raises(InvalidDeclaration, match=re.escape(says)):
        editor_of("x-consistent-hash", [("q", key)], **arguments)


def test_weights_are_written_as_erlang_reads_them() -> None:
    editor = editor_of("x-consistent-hash", [("a", "+2"), ("b", "003")])
    ring = ["a"] * 2 + ["b"] * 3
    assert queues(editor.topology, KEYS) == [ring[jump(text_hash(one.routing_key), 5)] for one in KEYS]


@pytest.mark.parametrize("kind", ["x-consistent-hash", "x-modulus-hash"])
def test_explain_says_what_was_hashed_and_whose_the_bucket_is(kind: str) -> None:
    topology = editor_of(kind, [("c", "2"), ("a", "5"), ("b", "9")]).topology
    for message, queue in zip(KEYS[:20], queues(topology, KEYS[:20]), strict=True):
        asked = [name for name in "abc" if name != queue]
        (said,) = Explainer(topology, DEFAULT_VHOST).explain(to_batch([message]), clock_ms=0, queues=asked)
        assert said.queues == (queue,)
        choice = said.visits[0].as_data()["choice"]
        assert choice["hashed"] == f"the key {message.routing_key!r}"
        for answer in said.why_not:
            assert answer.causes[0].kind == "hash"
            assert f"bucket {choice['bucket']} of {choice['buckets']}: that of binding" in answer.causes[0].message
            assert f"to queue {queue!r}; this one has bucket" in answer.causes[0].message


def test_an_exchange_whose_bindings_have_no_weights_does_not_become_a_hash_exchange() -> None:
    editor = editor_of("topic", [("q", "a.#")])
    with pytest.raises(InvalidDeclaration, match="must be an integer"):
        editor.declare_exchange(Exchange(DEFAULT_VHOST, "x", "x-consistent-hash"), overwrite=True)
    assert editor.topology.exchange(DEFAULT_VHOST, "x").type == "topic"
    assert not editor.declare_exchange(Exchange(DEFAULT_VHOST, "x", "x-modulus-hash"), overwrite=True)


@pytest.mark.parametrize("name", ["correlation_id", "message_id"])
def test_an_id_that_is_null_is_none(name: str) -> None:
    bound = [(f"q{number}", str(number + 1)) for number in range(20)]
    topology = editor_of("x-consistent-hash", bound, hash_property=name).topology
    sent = [Message(exchange="x"), Message(exchange="x", properties={name: None})]
    without, null = queues(topology, sent)
    assert without == null


@pytest.mark.parametrize("weight", ["1" * 4_400, "0" * 4_400 + "1"])
def test_a_weight_of_thousands_of_digits_is_refused(weight: str) -> None:
    editor = editor_of("x-consistent-hash", [("q", "1")])
    with pytest.raises(InvalidDeclaration, match="must not exceed"):
        editor.bind(Binding(0, DEFAULT_VHOST, "x", "q", "queue", weight), max_key_bytes=5_000)
