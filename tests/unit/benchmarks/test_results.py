"""What benchmarks record, and what docs/benchmarks.md makes of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.results import VARIABLE, Answer, read, record, rounds
from handbook import figures


def _answer(**changed: object) -> Answer:
    given: dict[str, object] = {
        "group": "Peers: brokers",
        "title": "A broker | durable",
        "unit": "messages/s",
        "figures": {"Bindery (tables)": 120_000.0, "broker 1.0": 2_345.6},
        "ratio": 51.2,
        "spread": (48.0, 53.0),
        "settings": {"peer": "confirms for every 1,000"},
        "command": "python -m benchmarks.peers --only broker",
        "at_least": 50.0,
    }
    return Answer(**{**given, **changed})  # type: ignore[arg-type]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "results" / "other.json"))
    return tmp_path / "results" / "other.json"


def test_an_answer_takes_the_place_of_the_one_before(file: Path) -> None:
    record("broker", _answer(), versions={"broker": "1.0"})
    record("other", _answer(title="Another", command="python -m benchmarks.other"))
    record("broker", _answer(ratio=40.0))
    found = read(file)
    assert list(found.questions) == ["broker", "other"]
    assert found.questions["broker"].ratio == 40.0
    assert found.questions["broker"].spread == (48.0, 53.0)
    run = found.runs["python -m benchmarks.peers --only broker"]
    assert run.versions["broker"] == "1.0"
    assert {"python", "pyspark", "pyarrow", "delta"} <= set(run.versions)
    assert set(run.machine) == {"cores", "memory_gib", "cpu", "load"}
    record("broker", _answer(command="python -m benchmarks.renamed"))
    assert set(read(file).runs) == {"python -m benchmarks.renamed", "python -m benchmarks.other"}


def test_a_file_of_another_format_is_refused(file: Path) -> None:
    record("broker", _answer())
    content = json.loads(file.read_text())
    file.write_text(json.dumps({**content, "format": 2}))
    with pytest.raises(ValueError, match="format 2 is not 1"):
        read(file)
    file.write_text(json.dumps({**content, "runs": {}}))
    with pytest.raises(ValueError, match="question 'broker': no run of"):
        read(file)


def test_the_ratio_is_the_median_of_the_rounds() -> None:
    """Each round measured both sides, so that what slowed the machine slowed both."""
    assert rounds([1.0, 2.0, 10.0], [5.0, 8.0, 20.0]) == (4.0, (2.0, 5.0))
    assert rounds([1.0, 1.0], [2.0, 4.0]) == (3.0, (2.0, 4.0))


def test_a_ratio_is_what_is_asked_or_not() -> None:
    assert _answer().met
    assert not _answer(at_least=52.0).met
    assert _answer(at_least=None).met is None
    assert not _answer(at_least=None, at_most=2.0).met


def test_numbers_have_three_digits_that_count() -> None:
    shown = [figures.number(one) for one in (0, 0.0512, 1.234, 51.25, 999.6, 123_456)]
    assert shown == ["0", "0.0512", "1.23", "51.2", "1,000", "123,000"]


def test_the_page_shows_each_answer_with_its_command(file: Path) -> None:
    record("broker", _answer())
    part = figures.section(read(file))
    row = next(line for line in part.splitlines() if line.startswith("| A broker"))
    assert row.replace(r"\|", "").count("|") == 8
    assert "**51.2** | 48.0–53.0 | ≥ 50: met | `python -m benchmarks.peers --only broker` |" in row
    assert "load" in part
    chart = figures.charts(read(file))["bench-peers-brokers"]
    assert chart.count("<rect") == 2
    assert "120,000 messages/s" in chart


def test_the_page_is_what_the_results_say() -> None:
    page = figures.PAGE.read_text("utf-8")
    assert figures.page(page, figures.section()) == page, "run: python -m handbook.figures"
    with pytest.raises(ValueError, match=r"docs/benchmarks.md lacks"):
        figures.page("no marks", "")
