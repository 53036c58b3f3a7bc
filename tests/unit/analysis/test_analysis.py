"""Each code of the analysis: what raises it, and the neighbour that does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bindery.router.analysis import RULES, Report, analyse
from bindery.router.analysis.cover import Budget, Cover, covers
from bindery.router.analysis.observed import SeenNames
from bindery.router.analysis.overlap import shared
from bindery.router.analysis.verdicts import Verdicts
from bindery.router.links import Links
from bindery.router.model import Setting
from bindery.router.values import Table
from tests.unit.analysis.build import Broker


def codes(broker: Broker, **options: Any) -> dict[str, list[str]]:
    """Code -> subjects, without the remarks about queues that these short topologies leave unbound."""
    found: dict[str, list[str]] = {}
    for finding in analyse(broker.topology, **options).findings:
        found.setdefault(finding.code, []).append(finding.subject.name)
    return found


def _covers(broker: Broker, budget: Budget) -> list[Cover]:
    links = Links(broker.topology, "/")
    return list(covers(links, Verdicts(links), budget))


def test_a_new_installation_has_nothing_to_remark() -> None:
    assert analyse(Broker().topology).findings == []


# -- bindings that another one covers ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "wide", "narrow", "code"),
    [
        ("topic", ("flight.#", {}), ("flight.*.late", {}), "BT101"),
        ("topic", ("#.*", {}), ("*.#", {}), "BT102"),
        ("topic", ("a.b", {}), ("a.b", {"x-filter-jms-selector": "x = 1"}), "BT101"),
        ("direct", ("a", {}), ("a", {"x-filter-jms-selector": "x = 1"}), "BT101"),
        ("direct", ("a", {"x-filter-jms-selector": "x = 1"}), ("a", {"x-filter-jms-selector": "y AND x=1"}), "BT101"),
        ("topic", ("#", {"x-filter-jms-selector": "x = 1"}), ("a", {"x-filter-jms-selector": "x = 1 AND y"}), "BT101"),
        ("fanout", ("", {"x-filter-jms-selector": "x = 1"}), ("k", {"x-filter-jms-selector": "x=1"}), "BT102"),
        ("fanout", ("", {}), ("ignored", {}), "BT102"),
        ("fanout", ("", {"x-filter-jms-selector": "x = 1"}), ("k", {"x-filter-jms-selector": "x = 1"}), "BT102"),
        ("headers", ("", {"x-match": "all", "a": 1}), ("", {"x-match": "all", "a": 1, "b": 2}), "BT101"),
        ("headers", ("", {"x-match": "any", "a": 1, "b": 2}), ("", {"x-match": "any", "a": 1}), "BT101"),
        ("headers", ("", {"x-match": "any", "a": 1, "b": 2}), ("", {"x-match": "all", "a": 1, "c": 3}), "BT101"),
        ("headers", ("", {"a": None}), ("", {"a": 1}), "BT101"),
        ("headers", ("", {"x-match": "any", "a": 1}), ("", {"x-match": "all", "a": 1}), "BT102"),
        ("headers", ("", {"a": 1}), ("", {"a": 1, "x-not-compared": 1}), "BT102"),
    ],
)  # fmt: skip
def test_a_covered_binding_is_named(
    kind: str, wide: tuple[str, dict[str, Any]], narrow: tuple[str, dict[str, Any]], code: str
) -> None:
    broker = Broker().exchange("x", kind).queues("q")
    first, second = broker.bind("x", "q", *wide), broker.bind("x", "q", *narrow)
    report = analyse(broker.topology)
    found = [f for f in report.findings if f.code in ("BT101", "BT102")]
    assert [(f.code, f.subject.id, [r.id for r in f.related]) for f in found] == [(code, second.id, [first.id])]


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        ("topic", ("a.*", {}), ("a.#.b", {})),
        ("topic", ("a.#", {"x-filter-jms-selector": "x = 1"}), ("a.b", {"x-filter-jms-selector": "x = 2"})),
        ("direct", ("a", {}), ("b", {})),
        ("direct", ("a", {"x-filter-jms-selector": "x=1"}), ("a", {"x-filter-jms-selector": "x=2"})),
        ("headers", ("", {"a": 1}), ("", {"a": 1.0})),
        ("headers", ("", {"x-match": "any", "a": 1, "b": 2}), ("", {"x-match": "any", "a": 1, "c": 2})),
        ("headers", ("", {"x-match": "all", "a": 1, "b": 2}), ("", {"x-match": "any", "c": 3, "d": 4})),
        ("headers", ("", {"x-match": "all", "a": 1, "b": 2}), ("", {"x-match": "all", "a": 1, "c": 3})),
    ],
)  # fmt: skip
def test_bindings_that_each_decide_something_are_left_alone(
    kind: str, one: tuple[str, dict[str, Any]], other: tuple[str, dict[str, Any]]
) -> None:
    broker = Broker().exchange("x", kind).queues("q")
    broker.bind("x", "q", *one)
    broker.bind("x", "q", *other)
    assert not {"BT101", "BT102"} & codes(broker).keys()


def test_bindings_to_other_destinations_or_with_other_replacement_keys_do_not_cover() -> None:
    broker = Broker().exchange("x", "topic").exchange("y", "direct").queues("q", "r")
    broker.bind("x", "q", "#")
    broker.bind("x", "r", "a")
    broker.bind("x", "y", "#", {"x-replacement-routing-key": "k"})
    broker.bind("x", "y", "a")
    assert not {"BT101", "BT102"} & codes(broker).keys()


def test_the_comparisons_grow_with_the_bindings_not_with_their_square() -> None:
    spent = []
    for count in (200, 2000):
        broker = Broker().exchange("x", "topic").exchange("h", "headers").queues("q")
        for n in range(count):
            broker.bind("x", "q", f"a{n}.*.b{n % 7}")
            broker.bind("h", "q", "", {"type": f"t{n}", "n": n})
        budget = Budget()
        assert _covers(broker, budget) == []
        spent.append(Budget().left - budget.left)
    assert spent[1] <= 12 * max(spent[0], 200)


def test_an_analysis_that_was_cut_short_says_so() -> None:
    broker = Broker().exchange("h", "headers").queues("q")
    for n in range(60):
        broker.bind("h", "q", "", {"x-match": "any", "same": 1, f"own{n}": n})
    budget = Budget(left=100)
    _covers(broker, budget)
    assert budget.spent_out


# -- keys and arguments -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "key", "arguments", "code"),
    [
        ("direct", "flight.*", {}, "BT103"),
        ("topic", "flight.LH*", {}, "BT104"),
        ("topic", "a.##", {}, "BT104"),
        ("fanout", "k", {}, "BT105"),
        ("headers", "k", {"a": 1}, "BT105"),
        ("topic", "k", {"x-match": "any", "a": 1}, "BT106"),
        ("topic", "k", {"x-filter-jms-selectr": "a = 1"}, "BT106"),
        ("fanout", "", {"x-replacement-routing-key": "k"}, "BT107"),
        ("headers", "", {}, "BT111"),
        ("headers", "", {"x-match": "all", "x-only": 1}, "BT111"),
        ("headers", "", {"x-match": "any"}, "BT112"),
        ("headers", "", {"x-match": "any", "a": 1, "x-device": "d"}, "BT113"),
        ("headers", "", {"body.amount": 1}, "BT114"),
        ("topic", "late ", {}, "BT161"),
    ],
)
def test_one_binding_read_otherwise_than_it_looks(kind: str, key: str, arguments: dict[str, Any], code: str) -> None:
    broker = Broker().exchange("x", kind).queues("q")
    binding = broker.bind("x", "q", key, arguments)
    found = {f.code: f.subject.id for f in analyse(broker.topology).findings}
    assert found.get(code) == binding.id


def test_ordinary_bindings_raise_nothing() -> None:
    broker = Broker().exchange("t", "topic").exchange("d", "direct").exchange("h", "headers").queues("q")
    broker.bind("t", "q", "a.*.#")
    broker.bind("d", "q", "a")
    broker.bind("h", "q", "", {"x-match": "any-with-x", "x-device": "d", "x-filter-jms-selector": "n > 1"})
    assert codes(broker) == {}


# -- what is reached --------------------------------------------------------------------------------


def test_a_queue_without_a_binding() -> None:
    assert codes(Broker().queues("q")) == {"BT120": ["q"]}


def test_a_queue_whose_bindings_never_match() -> None:
    broker = Broker().exchange("h", "headers").queues("q")
    broker.bind("h", "q", "", {"x-match": "any"})
    assert codes(broker)["BT121"] == ["q"]


def test_a_queue_behind_an_internal_exchange_that_nothing_feeds() -> None:
    broker = Broker().exchange("inner", "fanout", internal=True).queues("q")
    broker.bind("inner", "q")
    assert codes(broker) == {"BT121": ["q"], "BT122": ["inner"]}
    broker.exchange("outer", "fanout")
    broker.bind("outer", "inner")
    assert codes(broker) == {}


def test_an_exchange_without_destinations() -> None:
    assert codes(Broker().exchange("x", "topic")) == {"BT123": ["x"]}


def test_missing_ambiguous_and_unused_alternates() -> None:
    broker = Broker().queues("both", "q").exchange("both", "fanout")
    broker.bind("both", "q")
    broker.exchange("a", "direct", alternate_exchange="gone")
    broker.exchange("b", "direct", alternate_binding={"destination": "both"})
    broker.exchange("c", "fanout", alternate_exchange="both")
    broker.bind("c", "both")
    found = codes(broker)
    assert (found["BT133"], found["BT134"], found["BT135"]) == (["a"], ["b"], ["c"])


def test_an_alternate_given_by_a_policy_counts() -> None:
    broker = Broker().exchange("x", "direct")
    definition = Table({"alternate-exchange": "gone"})
    broker.editor.put_setting(
        Setting(
            "policy",
            "/",
            "p",
            Table({"pattern": "^x$", "definition": definition, "apply-to": "exchanges", "priority": 0}),
        )
    )
    assert codes(broker)["BT133"] == ["x"]


def test_cycles_by_kind() -> None:
    broker = Broker().queues("q")
    for name in ("a", "b", "c", "d", "e", "f"):
        broker.exchange(name, "topic", **({"alternate_exchange": "c"} if name == "d" else {}))
    broker.bind("a", "b", "#")
    broker.bind("b", "a", "k")
    broker.bind("c", "d", "k")
    broker.divert("loop", "e", "f", filter="x = 1")
    broker.bind("f", "e", "k")
    found = codes(broker)
    assert len(found["BT130"]) == 3  # each circle has a binding in it
    assert len(found["BT131"]) == 1
    assert len(found["BT132"]) == 1


def test_an_exchange_bound_to_itself_is_a_cycle() -> None:
    broker = Broker().exchange("x", "topic").queues("q")
    broker.bind("x", "x", "k")
    broker.bind("x", "q", "k")
    assert codes(broker) == {"BT130": ["x"]}


def test_a_diamond_is_no_cycle() -> None:
    broker = Broker().queues("q")
    for name in ("a", "b", "c", "d"):
        broker.exchange(name, "fanout")
    for source, target in (("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("d", "q")):
        broker.bind(source, target)
    assert codes(broker) == {}


# -- diverts ----------------------------------------------------------------------------------------


def test_an_exclusive_divert_without_a_filter_starves() -> None:
    broker = Broker().exchange("x", "fanout").exchange("y", "fanout").queues("starved", "fed")
    broker.bind("x", "starved")
    broker.bind("y", "fed")
    broker.divert("all", "x", "y", exclusive=True)
    found = codes(broker)
    assert found["BT140"] == ["all"]
    assert found["BT121"] == ["starved"]
    assert "'starved'" in next(f.message for f in analyse(broker.topology).findings if f.code == "BT140")


def test_an_exclusive_divert_with_a_filter_does_not() -> None:
    broker = Broker().exchange("x", "fanout").exchange("y", "fanout").queues("q", "fed")
    broker.bind("x", "q")
    broker.bind("y", "fed")
    broker.divert("some", "x", "y", exclusive=True, filter="kind = 'a'")
    assert codes(broker) == {}


def test_diverts_that_never_fire() -> None:
    broker = Broker().exchange("x", "fanout").exchange("y", "fanout").queues("fed")
    broker.bind("y", "fed")
    broker.divert("never", "x", "y", filter="n > 2 AND n < 1")
    broker.divert("all", "x", "y", exclusive=True)
    broker.divert("copy", "x", "y")
    assert codes(broker)["BT141"] == ["copy", "never"]


def test_an_exclusive_divert_into_nothing() -> None:
    broker = Broker().exchange("x", "fanout").exchange("hole", "fanout").queues("q")
    broker.bind("x", "q")
    broker.divert("lost", "x", "hole", exclusive=True, filter="a = 1")
    assert codes(broker)["BT142"] == ["lost"]


# -- filters ----------------------------------------------------------------------------------------


def selected(kind: str, selector: str, **criteria: Any) -> Broker:
    broker = Broker().exchange("x", kind).queues("q")
    broker.bind("x", "q", "", {**criteria, "x-filter-jms-selector": selector})
    return broker


@pytest.mark.parametrize(
    "selector",
    [
        "1 = 2",
        "n = 1 AND n = 2",
        "n > 5 AND n < 5",
        "n BETWEEN 3 AND 2",
        "n = 1 AND n IS NULL",
        "n = 1 AND n = 'text'",
        "a = 1 AND (b > 2 AND b < 2)",
    ],
)
def test_filters_that_are_never_true(selector: str) -> None:
    assert "BT170" in codes(selected("fanout", selector))


@pytest.mark.parametrize("selector", ["1 = 1", "n IS NULL OR n IS NOT NULL", "TRUE OR n = 1"])
def test_filters_that_are_always_true(selector: str) -> None:
    assert "BT171" in codes(selected("fanout", selector))


@pytest.mark.parametrize(
    "selector",
    [
        "n = 1",
        "n > 5 AND n < 6",  # 5.5
        "n = 1 OR n <> 1",  # unknown without n
        "n <> 1 AND n <> 2",
        "n LIKE 'a%' AND n LIKE '%b'",
        "a = 1 AND b = 2",
        "a + 1 > b",
        "NOT (n = 1) AND n = 'text'",
        "n = TRUE AND n <> FALSE",
    ],
)
def test_filters_that_depend_on_the_message(selector: str) -> None:
    assert not {"BT170", "BT171"} & codes(selected("fanout", selector)).keys()


def test_a_filter_that_contradicts_the_criteria_of_its_binding() -> None:
    assert "BT172" in codes(selected("headers", "carrier = 'UA' AND delay > 60", carrier="AA"))
    assert "BT172" in codes(selected("headers", "n > 5", n=5))
    assert codes(selected("headers", "carrier = 'AA' AND delay > 60", carrier="AA")) == {}
    assert codes(selected("headers", "carrier = 'UA'", **{"x-match": "any", "carrier": "AA", "b": 1})) == {}
    assert codes(selected("headers", "carrier = 'UA'", carrier=None)) == {}


def test_what_filter_lint_warns_of_is_passed_on() -> None:
    (finding,) = analyse(selected("fanout", "AMQPriority > 3").topology).findings
    assert (finding.code, finding.message.split()[0]) == ("BT174", "BF109")
    assert codes(selected("fanout", "NOT colour = 'red'")) == {}  # worth knowing, no warning


def test_a_binding_filter_that_contradicts_the_queue_filter() -> None:
    broker = Broker().exchange("x", "fanout").queues("q", x_queue_filter="AMQPriority > 5 AND n = 1")
    broker.bind("x", "q", "", {"x-filter-jms-selector": "n = 2"})
    assert codes(broker)["BT173"] == ["x -> q []"]


def test_a_queue_filter_that_is_never_true_makes_the_queue_unreachable() -> None:
    broker = Broker().exchange("x", "fanout").queues("q", x_queue_filter="1 = 2")
    broker.bind("x", "q")
    assert codes(broker) == {"BT121": ["q"], "BT170": ["q"]}


def _unseen(broker: Broker, **rows: SeenNames) -> dict[str, str]:
    found = analyse(broker.topology, names={"/": dict(rows)}).findings
    return {finding.subject.name: finding.message for finding in found if finding.code == "BT175"}


def test_a_property_that_no_message_has_but_for_one_like_it() -> None:
    broker = Broker().exchange("x", "fanout").exchange("y", "fanout").queues("q", x_queue_filter="dep_dely > 1")
    broker.queues("named", x_queue_filter="dep_delay > 1 OR gone IS NULL OR ab = 1")
    broker.bind("x", "y")
    for queue in ("q", "named"):
        broker.bind("y", queue)
    broker.divert("d", "y", "x", filter="Carrier = 'UA'")
    seen = SeenNames(40, {"dep_delay": 30, "carrier": 40, "abc": 40})
    message = "none of 40 sampled rows has {}: did you mean {} ({} have it)?"
    expected = {"q": message.format("dep_dely", "dep_delay", 30), "d": message.format("Carrier", "carrier", 40)}
    assert _unseen(broker, x=seen) == _unseen(broker, y=seen) == expected
    assert _unseen(broker, z=seen) == {}, "what is published elsewhere says nothing"
    assert _unseen(broker, x=SeenNames(1, {"dep_delay": 1})).keys() == {"q"}, "the finding says how few rows there are"
    assert _unseen(broker, x=SeenNames()) == {}
    both = _unseen(broker, x=seen, y=SeenNames(1, {"dep_dely": 1, "Carrier": 1}))
    assert both == {}, "one message has it"


# -- names and overlap ------------------------------------------------------------------------------


@pytest.mark.parametrize("other", ["Orders", "orders ", "оrders", "orders\u200b", "0rders", "ｏrders"])
def test_names_that_look_alike(other: str) -> None:
    broker = Broker().exchange("x", "fanout").queues("orders", other, "billing")
    for queue in ("orders", other, "billing"):
        broker.bind("x", queue)
    assert len(codes(broker)["BT160"]) == 1


def test_exchanges_and_queues_may_share_a_name() -> None:
    broker = Broker().exchange("orders", "fanout").queues("orders")
    broker.bind("orders", "orders")
    assert codes(broker) == {}


def test_queues_that_received_the_same_messages() -> None:
    broker = Broker().exchange("x", "fanout").queues("all", "same", "part", "other")
    for queue in ("all", "same", "part", "other"):
        broker.bind("x", queue)
    messages = np.arange(100)
    samples = {"all": messages, "same": messages, "part": messages[:40], "other": messages + 90}
    found = codes(broker, samples={"/": samples})
    assert found == {"BT150": ["part", "part"], "BT151": ["same"]}


def test_common_messages_are_counted_exactly_whatever_their_number() -> None:
    random = np.random.default_rng(1)
    samples = {f"q{n}": random.choice(20_000, size=3_000 + n, replace=False) + 10**15 for n in range(5)}
    names, common = shared(samples)
    for row, one in enumerate(names):
        for column, other in enumerate(names):
            assert common[row, column] == len(set(samples[one]) & set(samples[other]))


# -- the report -------------------------------------------------------------------------------------


def test_a_report_counts_what_it_does_not_list() -> None:
    broker = Broker().queues(*(f"q{n}" for n in range(250)))
    report = analyse(broker.topology)
    assert report.totals["BT120"] == 250
    assert len(report.findings) == 200


def test_a_report_as_data_has_the_gravest_first_and_names_the_documentation() -> None:
    broker = selected("headers", "carrier = 'UA'", carrier="AA")
    broker.queues("lonely")
    data = analyse(broker.topology).as_data()
    assert [item["code"] for item in data["findings"]] == ["BT172", "BT120"]
    assert data["findings"][0]["documentation"] == "docs/topology-lint.md#bt172"
    assert data["severities"] == {"error": 1, "warning": 0, "info": 1}


def test_one_vhost_is_judged_alone() -> None:
    broker = Broker().queues("q")
    from bindery.router.model import Queue, Vhost

    broker.editor.declare_vhost(Vhost("other"))
    broker.editor.declare_queue(Queue("other", "r"))
    assert [f.subject.name for f in analyse(broker.topology, vhosts=["other"]).findings] == ["r"]
    assert len(analyse(broker.topology).findings) == 2


def test_codes_are_unique_and_explained() -> None:
    assert all(rule.code == code and rule.explanation.endswith(".") for code, rule in RULES.items())
    assert Report().worst() is None
