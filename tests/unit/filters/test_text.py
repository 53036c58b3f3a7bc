"""Simple case mappings keep lengths; dates follow ISO 8601."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindery.router.filters.text import date_to_ms, fold, lower, upper


@given(st.text())
def test_case_mappings_keep_the_length(text: str) -> None:
    assert len(lower(text)) == len(upper(text)) == len(fold(text)) == len(text)


@pytest.mark.parametrize(
    ("text", "lowered", "uppered", "folded"),
    [
        ("ß", "ß", "ß", "ß"),
        ("ẞ", "ß", "ẞ", "ß"),
        ("İ", "i", "İ", "İ"),
        ("ΑΣ", "ας"[0] + "σ", "ΑΣ", "ασ"),
        ("ς", "ς", "Σ", "σ"),
        ("ŉ", "ŉ", "ŉ", "ŉ"),
        ("ǆ", "ǆ", "Ǆ", "ǆ"),
        ("ᾳ", "ᾳ", "ᾼ", "ᾳ"),
        ("ﬁ", "ﬁ", "ﬁ", "ﬁ"),
        ("µ", "µ", "Μ", "μ"),
        ("🇬🇧", "🇬🇧", "🇬🇧", "🇬🇧"),
    ],
)
def test_simple_mappings(text: str, lowered: str, uppered: str, folded: str) -> None:
    assert (lower(text), upper(text), fold(text)) == (lowered, uppered, folded)


@given(
    st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59)), st.sampled_from(["", "Z", "+02:00", "-0530"])
)
def test_dates_read_back(moment: datetime, zone: str) -> None:
    text = moment.replace(microsecond=moment.microsecond // 1000 * 1000).isoformat(timespec="milliseconds") + zone
    wanted = datetime.fromisoformat(text)
    wanted = wanted if wanted.tzinfo else wanted.replace(tzinfo=UTC)
    try:
        ms = (wanted - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000
    except OverflowError:
        return
    assert date_to_ms(text) == round(ms)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-01", 0),
        ("19700101", 0),
        ("1970-001", 0),
        ("1970-W01-4", 0),
        ("1970-01-01T00:00", 0),
        ("1970-01-01 00", 0),
        ("1970-01-01T000001Z", 1000),
        ("1970-01-01T00:00:00.5Z", 500),
        ("1970-01-01T00:00:00,123999", 123),
        ("1970-01-01T24:00:00Z", 86_400_000),
        ("1969-12-31T23:59:59.999Z", -1),
        ("1970-01-01T01:00+01", 0),
        ("", None),
        ("1970", None),
        ("1970-1-1", None),
        ("1970-02-30", None),
        ("1970-366", None),
        ("1970-01-01T25:00", None),
        ("1970-01-01T24:00:01", None),
        ("1970-01-01T00:00+25:00", None),
        ("1970-01-01x00:00", None),
        (" 1970-01-01", None),
        ("٠٩٧٠-01-01", None),
    ],
)
def test_iso_8601(text: str, ms: int | None) -> None:
    assert date_to_ms(text) == ms
