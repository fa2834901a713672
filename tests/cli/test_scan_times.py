"""When a fault was, as `gpuward scan` tells it: years, zones, boots, clocks. How a stamp is read is tested there."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gpuward.adapters.clock import SystemClock
from tests.kit.commands import Answer, ask, written

BODY = "NVRM: Xid (PCI:0000:3b:00): 79, pid=4321, name=train, GPU has fallen off the bus."
DAY = 86_400


def scan(capsys: pytest.CaptureFixture[str], folder: Path, lines: list[str], *words: str) -> Answer:
    return ask(capsys, "scan", "--json", *words, written(folder, lines))


def time_of(capsys: pytest.CaptureFixture[str], folder: Path, line: str, *words: str) -> Any:
    return scan(capsys, folder, [line], *words).object()["time"]


def shifted(days: float) -> datetime:
    """Return now and so many days, never February 29, which not every year has."""
    moment = datetime.fromtimestamp(SystemClock().now() + days * DAY, UTC).replace(microsecond=0)
    return moment + timedelta(days=1) if (moment.month, moment.day) == (2, 29) else moment


def printed(moment: datetime) -> str:
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


@pytest.mark.parametrize(("days", "years_back"), [(-1, 0), (-200, 0), (3, 1), (150, 1)])
def test_a_stamp_without_year_is_of_the_year_that_makes_it_past_and_nearest(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, days: float, years_back: int
) -> None:
    moment = shifted(days)
    line = f"{moment:%b} {moment.day:2d} {moment:%H:%M:%S} ember kernel: {BODY}"
    expected = moment.replace(year=moment.year - years_back)
    assert time_of(capsys, tmp_path, line, "--timezone", "UTC") == printed(expected)


@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        ("UTC", "2026-01-20T12:00:00.000000Z"),
        ("Asia/Shanghai", "2026-01-20T04:00:00.000000Z"),
        ("America/New_York", "2026-01-20T17:00:00.000000Z"),
        ("+05:30", "2026-01-20T06:30:00.000000Z"),
        ("-0330", "2026-01-20T15:30:00.000000Z"),
    ],
)
def test_a_stamp_without_zone_is_in_the_zone_asked_for(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, zone: str, expected: str
) -> None:
    line = f"[Tue Jan 20 12:00:00 2026] {BODY}"
    assert time_of(capsys, tmp_path, line, f"--timezone={zone}") == expected


def test_a_stamp_with_a_zone_keeps_its_own(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    line = f"2026-01-20T12:00:00+02:00 ember kernel: {BODY}"
    assert time_of(capsys, tmp_path, line, "--timezone", "Asia/Shanghai") == "2026-01-20T10:00:00.000000Z"


@pytest.mark.parametrize("zone", ["Mars/Phobos", "", "../../etc/passwd", "+99:99", "/etc/localtime", "\x1b[31m"])
def test_what_is_no_zone_is_wrong_usage(capsys: pytest.CaptureFixture[str], tmp_path: Path, zone: str) -> None:
    answer = scan(capsys, tmp_path, [BODY], f"--timezone={zone}")
    assert (answer.code, answer.out) == (2, "")
    assert "there is no time zone" in answer.err
    assert "\x1b" not in answer.err


def test_an_uptime_becomes_a_time_with_the_boot_time(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    line = f"[  100.250000] {BODY}"
    assert time_of(capsys, tmp_path, line) is None
    told = time_of(capsys, tmp_path, line, "--boot-time", "2026-11-01T00:00:00Z")
    assert told == "2026-11-01T00:01:40.250000Z"
    in_zone = time_of(capsys, tmp_path, line, "--boot-time", "2026-11-01 08:00", "--timezone", "Asia/Shanghai")
    assert in_zone == told


def test_uptimes_without_a_boot_time_are_noted_once_with_the_remedy(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    logs = [written(tmp_path, [f"[  {at}.250000] {BODY}" for at in (100, 101)], name) for name in ("a.log", "b.log")]
    noted = (
        f"gpuward: note: {logs[0]}: times are seconds since boot (4 lines); "
        "give --boot-time TIME (auto: this machine's) to get the wall clock\n"
    )
    for words in ([], ["--json"], ["--lines"]):
        answer = ask(capsys, "scan", *words, *logs)
        assert noted in answer.err
        assert answer.err.count("since boot") == 1
        assert "since boot" not in ask(capsys, "scan", *words, "--boot-time", "2026-11-01T00:00:00Z", *logs).err


def test_uptimes_of_a_boot_that_the_boot_time_is_not_about_are_noted_as_such(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lines = [f"[  100.000000] {BODY}", "[    0.000000] Linux version 6.8.0 (b@forge)", f"[   50.000000] {BODY}"]
    err = scan(capsys, tmp_path, lines, "--boot-time", "2026-11-01T00:00:00Z").err
    assert "of a later boot than the one --boot-time is about; scan each boot by itself" in err


@pytest.mark.parametrize("line", [BODY, f"2026-01-20T12:00:00+02:00 ember kernel: [  100.000000] {BODY}"])
def test_no_note_is_made_of_lines_with_a_wall_clock_or_no_clock(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, line: str
) -> None:
    assert "since boot" not in scan(capsys, tmp_path, [line]).err


def test_the_boot_time_auto_is_this_machines(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    uptime = float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
    told = time_of(capsys, tmp_path, f"[    0.000000] {BODY}", "--boot-time", "auto")
    assert datetime.fromisoformat(told).timestamp() == pytest.approx(SystemClock().now() - uptime, abs=120)


def test_two_boots_in_one_file_are_two_faults_and_the_second_boot_has_another_time(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lines = [f"[  100.000000] {BODY}", "[    0.000000] Linux version 6.8.0 (b@forge)", f"[   50.000000] {BODY}"]
    faults = scan(capsys, tmp_path, lines, "--boot-time", "2026-11-01T00:00:00Z").objects()
    assert sorted((one["count"], one["time"] or "") for one in faults) == [(1, ""), (1, "2026-11-01T00:01:40.000000Z")]


def test_since_and_until_keep_what_went_on_then_and_what_has_no_time(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lines = [f"2026-11-{day:02d}T00:00:00Z ember kernel: {BODY}" for day in (1, 5, 9)]
    lines.append("[    5.000000] NVRM: Xid (PCI:0000:86:00): 48, DBE")
    words = ["--since", "2026-11-03T00:00:00Z", "--until", "2026-11-07T00:00:00Z"]
    faults = scan(capsys, tmp_path, lines, *words).objects()
    assert [one["time"] for one in faults] == [None, "2026-11-05T00:00:00.000000Z"]


def test_since_takes_a_span_before_now(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    lines = [f"{printed(shifted(days))} ember kernel: {BODY}" for days in (-3, -0.01)]
    for span in ("2d", "48h", "2 d ago", "2880min"):
        assert len(scan(capsys, tmp_path, lines, "--since", span).objects()) == 1
    assert len(scan(capsys, tmp_path, lines, "--since", "1w").objects()) == 2


def test_the_exit_code_is_about_what_was_asked_for(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    lines = [f"2026-11-01T00:00:00Z ember kernel: {BODY}"]
    assert scan(capsys, tmp_path, lines).code == 1
    assert scan(capsys, tmp_path, lines, "--since", "2026-11-02").code == 0


@pytest.mark.parametrize("option", ["--since", "--until", "--boot-time"])
@pytest.mark.parametrize("word", ["yesterday", "", "2026-13-01", "2026-11-30T25:00", "1e9", "\x1b[31m", "-5", "NaN"])
def test_what_is_no_time_is_wrong_usage(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, option: str, word: str
) -> None:
    answer = scan(capsys, tmp_path, [BODY], f"{option}={word}")
    assert (answer.code, answer.out) == (2, "")
    assert f"{option}: " in answer.err
    assert "is not a time; give" in answer.err
    assert "\x1b" not in answer.err


@pytest.mark.parametrize("word", ["9999-12-31T23:59:59+00:00", "0001-01-01", "9" * 5000 + "w", "99999999999"])
def test_a_time_beyond_all_calendars_is_no_trouble(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, word: str
) -> None:
    for option in ("--since", "--until", "--boot-time"):
        answer = scan(capsys, tmp_path, [f"[  100.250000] {BODY}"], f"{option}={word}", "--timezone", "+14:00")
        assert answer.code in {0, 1, 2}
        assert "Traceback" not in answer.err


def test_a_log_from_the_future_is_read_and_noted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    ahead = printed(shifted(400))
    answer = scan(capsys, tmp_path, [f"{ahead} ember kernel: {BODY}"] * 2)
    assert answer.object()["time"] == ahead
    assert "2 lines lie in the future" in answer.err
    assert "check the clock of that machine" in answer.err


def test_a_log_of_a_clock_a_little_ahead_is_no_note(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    answer = scan(capsys, tmp_path, [f"{printed(shifted(60 / DAY))} ember kernel: {BODY}"])
    assert "future" not in answer.err
