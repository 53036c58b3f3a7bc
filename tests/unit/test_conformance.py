"""The project's own cases on both implementations, and the command that runs cases."""

import json
import re
import sys
from pathlib import Path

import pytest

from bindery.cli.main import main
from bindery.conformance import Case, Outcome, Status, read_cases, run_cases
from bindery.router.errors import InvalidInput

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests" / "conformance"
CLOCK_MS = 1_790_000_000_000


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.jsonl")), ids=lambda file: file.stem)
def test_every_case_passes_on_engine_and_reference(file: Path) -> None:
    report = run_cases(read_cases([file]), clock_ms=CLOCK_MS)
    assert report.as_json()["failures"] == []
    assert all(counts["unsupported"] == 0 for counts in report.families.values())


def test_ids_are_unique_and_every_case_names_its_source() -> None:
    cases = read_cases([FOLDER])
    assert len({case.id for case in cases}) == len(cases)
    assert all(case.content["source"] for case in cases)


def test_the_table_of_paragraphs_covers_every_case_and_nothing_else() -> None:
    table = {
        pattern.removesuffix("-*")
        for line in (ROOT / "docs" / "conformance.md").read_text().splitlines()
        if line.startswith("|")
        for pattern in re.findall(r"`([a-z0-9-]+-\*)`", line)
    }
    assert {case.id.rpartition("-")[0] for case in read_cases([FOLDER])} == table


# -- reading ----------------------------------------------------------------------------------------------

CASE = {
    "id": "jms-1",
    "kind": "filter",
    "dialect": "jms",
    "filter": "a = 1",
    "message": {"application_properties": {"a": 1}},
    "expect": True,
}
ROUTE = {
    "id": "route-1",
    "kind": "route",
    "topology": {"exchanges": [], "queues": [{"name": "q"}], "bindings": []},
    "messages": [{"routing_key": "q", "expect": ["q"]}, {"routing_key": "r", "expect": []}],
}
CAPABILITIES: dict[str, object] = {
    "id": "capabilities-1",
    "kind": "capabilities",
    "place": "queue",
    "descriptors": ["apache.org:selector-filter:string"],
    "expect": ["APACHE.ORG:SELECTOR"],
}
DECLARE = {"id": "declare-1", "kind": "declare", "topology": {"queues": [{"name": "amq.q"}]}, "expect": "error"}
SET = {
    "id": "set-1",
    "kind": "filter-set",
    "filters": {"f": {"descriptor": "amqp:sql-filter", "value": "a = 1"}},
    "message": {"application_properties": {"a": 1}},
    "expect": True,
}


def write(path: Path, *cases: object) -> Path:
    path.write_text("".join(json.dumps(case) + "\n" for case in cases))
    return path


def without(key: str) -> dict[str, object]:
    return {name: value for name, value in CASE.items() if name != key}


def test_folders_are_searched_below_and_a_file_named_twice_counts_once(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    inner = write(tmp_path / "deep" / "er" / "z.jsonl", CASE)
    outer = write(tmp_path / "a.jsonl", DECLARE, ROUTE)
    write(tmp_path / "a.json", "not a case")
    assert [case.id for case in read_cases([tmp_path, inner])] == ["declare-1", "route-1", "jms-1"]
    assert [case.where for case in read_cases([outer])] == [f"{outer}:1", f"{outer}:2"]


def test_blank_lines_are_skipped_but_counted(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text(f"\n{json.dumps(CASE)}\r\n\n{json.dumps(ROUTE)}")
    assert [case.where for case in read_cases([file])] == [f"{file}:2", f"{file}:4"]


def test_the_family_is_the_dialect_or_the_kind_whatever_the_file_is_called(tmp_path: Path) -> None:
    dialects = [CASE | {"dialect": name} for name in ("jms", "apache-selector", "artemis", "amqp-sql", "klingon")]
    file = write(tmp_path / "anything.jsonl", *dialects, SET, ROUTE, DECLARE)
    families = [case.family for case in read_cases([file])]
    assert families == ["jms", "jms", "artemis", "amqp-sql", "klingon", "filter-set", "route", "declare"]


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"not json",
        b"[1]",
        b"\xff\xfe",
        b"[" * 100_000,
        json.dumps(without("id")).encode(),
        json.dumps(without("kind")).encode(),
        json.dumps(without("dialect")).encode(),
        json.dumps(without("filter")).encode(),
        json.dumps(without("message")).encode(),
        json.dumps(without("expect")).encode(),
        json.dumps(CASE | {"expect": "maybe"}).encode(),
        json.dumps(CASE | {"filter": 5}).encode(),
        json.dumps(CASE | {"id": 5}).encode(),
        json.dumps(DECLARE | {"expect": True}).encode(),
        json.dumps(DECLARE | {"topology": {"queues": ["q"]}}).encode(),
        json.dumps(ROUTE | {"messages": [{"routing_key": "q"}]}).encode(),
        json.dumps(ROUTE | {"messages": {}}).encode(),
        json.dumps(ROUTE | {"messages": [{"expect": [], "disposition": "delivered"}]}).encode(),
        json.dumps(ROUTE | {"kind": "bridge"}).encode(),
        json.dumps(ROUTE | {"kind": "bridge", "bridges": [{"queue": "q"}]}).encode(),
        json.dumps(CAPABILITIES | {"place": "link"}).encode(),
        json.dumps(CAPABILITIES | {"place": "exchange"}).encode(),
        json.dumps(CAPABILITIES | {"descriptors": "d"}).encode(),
    ],
    ids=lambda line: line[:40].decode(errors="replace"),
)
def test_what_is_no_case_is_refused_with_file_and_line(tmp_path: Path, line: bytes) -> None:
    file = tmp_path / "broken.jsonl"
    file.write_bytes(json.dumps(CASE).encode() + b"\n\n" + line + b"\n")
    with pytest.raises(InvalidInput) as caught:
        read_cases([file])
    assert caught.value.where == f"{file}:3"


def test_a_path_without_cases_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no file or folder"):
        read_cases([tmp_path / "nosuch"])
    with pytest.raises(InvalidInput, match=r"no \*\.jsonl file"):
        read_cases([tmp_path])


# -- running ----------------------------------------------------------------------------------------------


def outcomes(tmp_path: Path, *cases: object) -> list[Outcome]:
    return list(run_cases(read_cases([write(tmp_path / "cases.jsonl", *cases)]), clock_ms=CLOCK_MS).outcomes)


def test_outcomes_come_in_the_order_of_the_cases(tmp_path: Path) -> None:
    found = outcomes(tmp_path, ROUTE, CASE, DECLARE, CASE | {"filter": "a ="}, SET, CASE | {"dialect": "klingon"})
    assert [(outcome.case.id, outcome.engine, outcome.reference, outcome.status) for outcome in found] == [
        ("route-1", [["q"], []], [["q"], []], Status.PASSED),
        ("jms-1", True, True, Status.PASSED),
        ("declare-1", "error", "error", Status.PASSED),
        ("jms-1", "error", "error", Status.FAILED),
        ("set-1", True, True, Status.PASSED),
        ("jms-1", None, None, Status.UNSUPPORTED),
    ]


@pytest.mark.parametrize(
    ("engine", "reference", "status"),
    [
        (True, True, "passed"),
        (True, False, "failed"),
        (False, True, "failed"),
        (False, False, "failed"),
        (1, 1, "failed"),
    ],
)
def test_a_case_passes_only_when_both_give_the_expected_result(engine: object, reference: object, status: str) -> None:
    case = Case("c", "filter", "jms", CASE, "here:1")
    assert Outcome(case, engine, reference).status == status


@pytest.mark.parametrize(
    ("said", "stated", "status"),
    [
        ({}, {}, Status.PASSED),
        ({}, {"disposition": "discarded"}, Status.PASSED),
        ({}, {"disposition": "returned"}, Status.FAILED),
        ({}, {"disposition": None}, Status.FAILED),
        ({"mandatory": True}, {"disposition": "returned"}, Status.PASSED),
        ({"routing_key": "q"}, {"expect": ["q"], "disposition": None}, Status.PASSED),
        ({"routing_key": "q"}, {"expect": ["q"], "disposition": "discarded"}, Status.FAILED),
    ],
)
def test_a_disposition_counts_where_it_is_stated(
    tmp_path: Path, said: dict[str, object], stated: dict[str, object], status: Status
) -> None:
    case = ROUTE | {"messages": [{"routing_key": "r", **said, "expect": [], **stated}]}
    (outcome,) = run_cases(read_cases([write(tmp_path / "a.jsonl", case)]), clock_ms=CLOCK_MS).outcomes
    assert outcome.status is status


@pytest.mark.parametrize(("filter", "status"), [("a = 1", Status.PASSED), ("a = 2", Status.FAILED)])
def test_a_bridge_feeds_what_its_filter_accepts(tmp_path: Path, filter: str, status: Status) -> None:
    case = ROUTE | {
        "kind": "bridge",
        "topology": {
            "exchanges": [{"name": "x", "type": "fanout"}],
            "queues": [{"name": "q"}, {"name": "r"}],
            "bindings": [{"source": "x", "destination": "r"}],
        },
        "bridges": [{"queue": "q", "filter": filter, "exchange": "x"}],
        "messages": [{"routing_key": "q", "application_properties": {"a": 1}, "expect": ["q", "r"]}],
    }
    (outcome,) = run_cases(read_cases([write(tmp_path / "a.jsonl", case)]), clock_ms=CLOCK_MS).outcomes
    assert outcome.status is status


@pytest.mark.parametrize(("expect", "status"), [(["APACHE.ORG:SELECTOR"], Status.PASSED), ([], Status.FAILED)])
def test_capabilities_are_compared(tmp_path: Path, expect: list[str], status: Status) -> None:
    case = CAPABILITIES | {"expect": expect}
    (outcome,) = run_cases(read_cases([write(tmp_path / "a.jsonl", case)]), clock_ms=CLOCK_MS).outcomes
    assert outcome.status is status


def test_an_unknown_kind_is_unsupported(tmp_path: Path) -> None:
    (found,) = outcomes(tmp_path, {"id": "x-1", "kind": "haruspicy"})
    assert found.status is Status.UNSUPPORTED


def test_an_invalid_record_is_never_accepted_and_never_routed(tmp_path: Path) -> None:
    unfit = {"application_properties": {"a": {"ulong": 2**63}}}
    found = outcomes(
        tmp_path,
        CASE | {"filter": "TRUE", "message": unfit, "expect": False},
        SET | {"filters": {}, "message": unfit, "expect": False},
        ROUTE | {"messages": [{"routing_key": "q", "expect": []} | unfit, {"routing_key": "q", "expect": ["q"]}]},
    )
    assert [outcome.status for outcome in found] == [Status.PASSED] * 3


def test_unknown_does_not_accept(tmp_path: Path) -> None:
    (found,) = outcomes(tmp_path, CASE | {"filter": "z = 1", "expect": False})
    assert (found.engine, found.reference) == (False, False)


def test_a_crash_is_the_result_of_its_case_and_the_run_goes_on(tmp_path: Path) -> None:
    crashing = {"id": "declare-2", "kind": "declare", "topology": {"queues": [{"no": "name"}]}, "expect": "ok"}
    first, second = outcomes(tmp_path, crashing, DECLARE)
    assert (first.engine, first.status) == ("KeyError: 'name'", Status.FAILED)
    assert second.status is Status.PASSED


# -- the command ------------------------------------------------------------------------------------------


class Ran:
    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *args: object) -> None:
        monkeypatch.setattr(sys, "argv", ["bindery", "conformance", *map(str, args)])
        with pytest.raises(SystemExit) as ended:
            main()
        self.code = ended.value.code
        self.out, self.err = capsys.readouterr()


@pytest.fixture
def command(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *args: Ran(capsys, monkeypatch, *args)


def test_exit_0_when_everything_passes(command, tmp_path: Path) -> None:
    ran = command(write(tmp_path / "a.jsonl", CASE, ROUTE))
    assert ran.code == 0
    assert re.search(r"jms\W+1\W+0\W+0", ran.out)
    assert re.search(r"route\W+1\W+0\W+0", ran.out)


def test_exit_1_and_the_failure_with_message_and_both_results(command, tmp_path: Path) -> None:
    file = write(
        tmp_path / "a.jsonl", CASE | {"expect": False}, ROUTE | {"messages": [{"routing_key": "q", "expect": ["z"]}]}
    )
    ran = command(file)
    assert ran.code == 1
    for part in ("jms-1", f"{file}:1", "a = 1", '{"application_properties": {"a": 1}}', '[["z"]]', '[["q"]]'):
        assert part in ran.out


def test_a_message_whose_disposition_differs_is_shown(command, tmp_path: Path) -> None:
    wrong = {"routing_key": "r", "expect": [], "disposition": "returned"}
    right = {"routing_key": "s", "expect": [], "disposition": "discarded"}
    ran = command(write(tmp_path / "a.jsonl", ROUTE | {"messages": [wrong, right]}))
    assert ran.code == 1
    assert json.dumps(wrong) in ran.out
    assert json.dumps(right) not in ran.out


def test_only_the_first_failures_of_a_family_are_shown(command, tmp_path: Path) -> None:
    ran = command(write(tmp_path / "a.jsonl", *[CASE | {"id": f"jms-{n}", "expect": False} for n in range(12)]))
    assert "7 more failures in jms" in ran.out


def test_exit_2_names_file_and_line(command, tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text(json.dumps(CASE) + "\n{\n")
    ran = command(file, "--json")
    assert (ran.code, ran.out) == (2, "")
    assert f"{file}:2" in ran.err


def test_exit_2_for_a_path_or_a_family_that_is_not_there(command, tmp_path: Path) -> None:
    assert command(tmp_path / "nosuch").code == 2
    ran = command(write(tmp_path / "a.jsonl", CASE), "--family", "jsm")
    assert ran.code == 2
    assert "jsm" in ran.err


def test_json_has_exactly_families_and_failures(command, tmp_path: Path) -> None:
    ran = command(write(tmp_path / "a.jsonl", CASE | {"expect": "error"}, SET, {"id": "u-1", "kind": "new"}), "--json")
    assert ran.code == 1
    assert json.loads(ran.out) == {
        "families": {
            "filter-set": {"passed": 1, "failed": 0, "unsupported": 0},
            "jms": {"passed": 0, "failed": 1, "unsupported": 0},
            "new": {"passed": 0, "failed": 0, "unsupported": 1},
        },
        "failures": [{"id": "jms-1", "expect": "error", "engine": True, "reference": True}],
    }


def test_unsupported_cases_fail_nothing(command, tmp_path: Path) -> None:
    assert command(write(tmp_path / "a.jsonl", {"id": "u-1", "kind": "new"}), "--json").code == 0


def test_family_selects(command, tmp_path: Path) -> None:
    ran = command(write(tmp_path / "a.jsonl", CASE, SET, ROUTE), "--json", "--family", "jms", "--family", "route")
    assert list(json.loads(ran.out)["families"]) == ["jms", "route"]
