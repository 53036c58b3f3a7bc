"""CSV: columns are those that the header names, and quotes are doubled within quotes (RFC 4180)."""

from __future__ import annotations

from pathlib import Path

import pytest

from bindery.router.errors import Refused
from tests.spark.installation import Installation

JOB = """stream: s
source:
  format: csv
  path: INBOX
  schema: country STRING, amount STRING
  options: {OPTIONS}
message: {exchange: "'amq.topic'", routing_key: country, body: amount}
trigger: available-now
"""
HEADER = JOB.replace("OPTIONS", "header: true")


@pytest.fixture
def inbox(installation: Installation) -> Installation:
    installation.queue("all")
    return installation


def bodies(installation: Installation) -> dict[str, str]:
    return {row["routing_key"]: row["body"].decode() for row in installation.rows("all")}


def test_files_whose_header_is_not_the_schema_are_named_and_hurt_no_others(inbox: Installation) -> None:
    bad = {
        "order.csv": "amount,country",
        "missing.csv": "country",
        "more.csv": "country,amount,note",
        "name.csv": "country,sum",
        "none.csv": "DE,5",
    }
    inbox.write_lines("country,amount", "FR,7", file="a.csv")
    for name, header in bad.items():
        inbox.write_lines(header, "12.50,NL,x"[: 2 * header.count(",") + 5], file=name)
    inbox.write_lines("Country,AMOUNT", "IT,9", file="other-case.csv")
    inbox.write_lines(file="empty.csv")
    inbox.write_lines("country,amount", file="header.csv")

    (report,) = inbox.route(HEADER)

    assert bodies(inbox) == {"FR": "7", "IT": "9"}
    assert {row["reason"] for row in inbox.unroutable()} == {"invalid_record"}
    assert {Path(row["source"]["file"]).name: row["detail"] for row in inbox.unroutable()} == {
        name: f"its header is '{header}', and the columns of source.schema are 'country,amount'; "
        "name the columns of the schema in the order of the file"
        for name, header in bad.items()
    }
    assert (report.records, report.unroutable) == (7, 5)


def test_a_header_that_is_not_the_schema_stops_the_job_that_says_so(inbox: Installation) -> None:
    inbox.write_lines("amount,country", "12.50,NL", file="bad.csv")
    with pytest.raises(Refused, match=r"bad\.csv: its header is 'amount,country'"):
        inbox.route(HEADER.replace("path: INBOX", "path: INBOX\n  unreadable_files: stop"))
    assert inbox.counts() == {"all": 0}


def test_a_job_may_say_that_columns_go_by_their_position(inbox: Installation) -> None:
    inbox.write_lines("land,sum", "NL,5", file="a.csv")
    inbox.route(JOB.replace("OPTIONS", "header: true, enforceSchema: true"))
    assert bodies(inbox) == {"NL": "5"}


@pytest.mark.parametrize(
    ("options", "lines", "keys"),
    [
        ("header: true", ['"say ""hi""",5', r'"a\",5', '"a,""b"",c",5'], ['say "hi"', "a\\", 'a,"b",c']),
        ('header: true, quote: "\'"', ["'it''s',5"], ["it's"]),
        (r"header: true, escape: '\'", [r'"say \"hi\"",5'], ['say "hi"']),
        ("header: true, multiLine: true", ['"two\nlines",5'], ["two\nlines"]),
    ],
)
def test_quotes_within_quotes_are_doubled_unless_the_job_says_otherwise(
    inbox: Installation, options: str, lines: list[str], keys: list[str]
) -> None:
    inbox.write_lines("country,amount", *lines, file="a.csv")
    inbox.route(JOB.replace("OPTIONS", options))
    assert bodies(inbox) == dict.fromkeys(keys, "5")
