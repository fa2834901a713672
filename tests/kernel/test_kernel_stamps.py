"""Printed times become the right seconds, or None, in every zone and at every turn of the calendar."""

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuward.isolation.kernel import stamps

NEW_YORK = ZoneInfo("America/New_York")
BERLIN = ZoneInfo("Europe/Berlin")


def utc(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("2026-11-30T03:12:07+00:00", "2026-11-30T03:12:07"),
        ("2026-11-30T03:12:07,5+0100", "2026-11-30T02:12:07.500"),
        ("2026-11-30T03:12:07.123456-05:00", "2026-11-30T08:12:07.123456"),
        ("2026-11-30T03:12:07.123456789Z", "2026-11-30T03:12:07.123457"),
        ("2026-11-30T03:12:07", "2026-11-30T08:12:07"),
        ("2026-07-30T03:12:07", "2026-07-30T07:12:07"),
        ("2026-11-30 03:12:07 UTC", "2026-11-30T03:12:07"),
        ("2026-11-30 03:12:07 EST", "2026-11-30T08:12:07"),
        ("2016-12-31T23:59:60Z", "2017-01-01T00:00:00"),
    ],
)
def test_an_iso_stamp_keeps_its_own_zone_and_else_takes_ours(printed: str, expected: str) -> None:
    assert stamps.iso(printed, NEW_YORK, 0.0) == pytest.approx(utc(expected), abs=1e-5)


@pytest.mark.parametrize(
    "printed", ["2026-13-01T00:00:00Z", "2026-02-30T00:00:00Z", "2026-11-30T25:00:00Z", "0000-01-01T00:00:00Z", "", "x"]
)
def test_an_iso_stamp_of_no_such_day_is_none(printed: str) -> None:
    assert stamps.iso(printed, UTC, 0.0) is None


def test_an_offset_beyond_a_day_is_not_believed() -> None:
    assert stamps.iso("2026-11-30T03:12:07+99:00", UTC, 0.0) == utc("2026-11-30T03:12:07")


def test_a_ctime_stamp_is_in_our_zone() -> None:
    assert stamps.ctime("Mon Nov 30 03:12:07 2026", BERLIN, 0.0) == utc("2026-11-30T02:12:07")
    assert stamps.ctime("Sat Nov  7 03:12:07 2026", BERLIN, 0.0) == utc("2026-11-07T02:12:07")


@pytest.mark.parametrize(
    ("printed", "now", "expected"),
    [
        ("Nov 30 03:12:07", "2026-11-30T12:00:00", "2026-11-30T03:12:07"),
        ("Dec 31 23:59:59", "2027-01-01T00:00:10", "2026-12-31T23:59:59"),
        ("Dec  1 12:00:01", "2026-11-30T12:00:00", "2025-12-01T12:00:01"),
        ("Dec  1 11:59:59", "2026-11-30T12:00:00", "2026-12-01T11:59:59"),
        ("Jan  1 00:30:00", "2026-12-31T23:45:00", "2027-01-01T00:30:00"),
        ("Feb 29 08:00:00", "2026-11-30T12:00:00", "2024-02-29T08:00:00"),
        ("Feb 29 08:00:00", "2028-03-01T12:00:00", "2028-02-29T08:00:00"),
        ("Feb 29 08:00:00", "2103-11-30T12:00:00", "2096-02-29T08:00:00"),
        ("Nov 30 03:12:07.250000", "2026-11-30T12:00:00", "2026-11-30T03:12:07.250"),
        ("Nov 3 03:12:07", "2026-11-30T12:00:00", "2026-11-03T03:12:07"),
        ("Nov 03 03:12:07", "2026-11-30T12:00:00", "2026-11-03T03:12:07"),
    ],
)
def test_a_stamp_without_year_takes_the_latest_that_is_not_ahead_of_now(printed: str, now: str, expected: str) -> None:
    assert stamps.yearless(printed, UTC, utc(now)) == utc(expected)


@pytest.mark.parametrize("printed", ["Nov 31 03:12:07", "11月 30 03:12:07", "Nov 30 24:12:07", "", "Nov 30 03:12:07.x"])
def test_a_stamp_without_year_that_names_no_time_is_none(printed: str) -> None:
    read = stamps.yearless(printed, UTC, utc("2026-11-30T12:00:00"))
    assert read is None


def test_a_now_beyond_the_calendar_is_no_error() -> None:
    assert stamps.yearless("Nov 30 03:12:07", UTC, 1e18) is None


def test_summer_time_is_followed_and_of_an_hour_that_comes_twice_the_first_is_taken() -> None:
    now = utc("2026-11-30T12:00:00")
    assert stamps.yearless("Jul  1 12:00:00", BERLIN, now) == utc("2026-07-01T10:00:00")
    assert stamps.yearless("Oct 25 02:30:00", BERLIN, now) == utc("2026-10-25T00:30:00")


@settings(deadline=None)  # the machine may be busy
@given(
    st.datetimes(min_value=datetime(1971, 1, 1), max_value=datetime(2100, 1, 1)),  # noqa: DTZ001  # the zone is drawn apart
    st.integers(-14 * 60, 14 * 60),
)
def test_a_written_iso_stamp_reads_back(when: datetime, minutes: int) -> None:
    moment = when.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    assert stamps.iso(moment.isoformat(), UTC, 0.0) == pytest.approx(moment.timestamp(), abs=1e-5)
