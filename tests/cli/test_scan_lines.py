"""What `gpuward scan --lines` shows: each recognised line, before merging."""

from pathlib import Path

import pytest

from tests.kit.commands import ask, written

LINES = [
    "[    1.000000] Linux version 6.8.0-48-generic (builder@forge) (gcc 13) #1 SMP",
    "[    2.000000] NVRM: GPU at PCI:0000:3b:00: GPU-01234567-89ab-cdef-0123-456789abcdef",
    "[    3.000000] eth0: link is up",
    "[   10.500000] NVRM: Xid (PCI:0000:3b:00 GPU-I:02 GPU-CI:01): 31, pid=77, name=infer, Ch 00000008",
    "[   11.000000] NVRM: Xid (PCI:0000:3b:00",
    "[   12.000000] nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 44 egress error (First)",
    "[   12.000001] nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Severity 0 Engine instance 44",
    "[   13.000000] NVRM: chatter",
]
LINE_KEYS = [
    "line",
    "time",
    "facility",
    "kind",
    "code",
    "pci",
    "pid",
    "process",
    "mig",
    "severity",
    "link",
    "part",
    "details",
    "text",
]


def test_a_line_has_exactly_the_promised_keys_in_their_order(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    objects = ask(capsys, "scan", "--lines", "--json", written(tmp_path, LINES)).objects()
    assert [list(one) for one in objects] == [LINE_KEYS] * 6


def test_recognised_lines_are_shown_one_by_one_and_chatter_only_with_all(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    log = written(tmp_path, LINES)
    kinds = [(one["line"], one["kind"]) for one in ask(capsys, "scan", "--lines", "--json", log).objects()]
    assert kinds == [(1, "boot"), (2, "nvrm_gpu_uuid"), (4, "xid"), (5, "xid_malformed"), (6, "sxid"), (7, "sxid")]
    every = ask(capsys, "scan", "--lines", "--json", "--all", log).objects()
    assert [one["kind"] for one in every if one["line"] == 8] == ["nvrm_other"]


def test_a_line_says_what_it_carries_and_null_for_the_rest(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    objects = ask(
        capsys, "scan", "--lines", "--json", "--boot-time", "2026-11-20T00:00:00Z", written(tmp_path, LINES)
    ).objects()
    xid = objects[2]
    assert {key: xid[key] for key in LINE_KEYS if key != "details"} == {
        "line": 4,
        "time": "2026-11-20T00:00:10.500000Z",
        "facility": None,
        "kind": "xid",
        "code": 31,
        "pci": "0000:3b:00",
        "pid": 77,
        "process": "infer",
        "mig": {"gi": 2, "ci": 1},
        "severity": None,
        "link": None,
        "part": None,
        "text": LINES[3],
    }
    message, severity = objects[4], objects[5]
    assert (message["part"], message["severity"], message["link"]) == ("message", "non-fatal", 44)
    assert (severity["part"], severity["severity"], severity["link"]) == ("severity", None, None)


def test_the_facility_is_told_where_the_log_carries_one(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    body = "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."
    lines = [f"6,1,1000000,-;{body}", f"14,2,2000000,-;{body}", f"kern  :err   : [    3.000000] {body}"]
    objects = ask(capsys, "scan", "--lines", "--json", written(tmp_path, lines)).objects()
    assert [one["facility"] for one in objects] == ["kern", "user", "kern"]


def test_lines_have_no_grade_so_they_are_no_finding(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    lost = "[  100.000000] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."
    assert ask(capsys, "scan", "--lines", written(tmp_path, [lost])).code == 0
    assert ask(capsys, "scan", "--lines", written(tmp_path, [lost]), tmp_path / "missing").code == 3


def test_a_person_reads_one_row_a_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows = ask(capsys, "scan", "--lines", written(tmp_path, LINES)).out.splitlines()
    assert len(rows) == 6
    assert rows[2].split()[:7] == ["4", "no", "time", "xid", "31", "0000:3b:00", "77"]
    assert rows[2].endswith(LINES[3])


def test_since_and_until_choose_lines_and_keep_those_without_time(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    body = "NVRM: Xid (PCI:0000:3b:00): 13, Graphics Exception"
    lines = [f"2026-11-{day:02d}T00:00:00Z ember kernel: {body}" for day in (1, 2, 3)] + [body]
    words = ["--since", "2026-11-02T00:00:00Z", "--until", "2026-11-02T12:00:00Z"]
    objects = ask(capsys, "scan", "--lines", "--json", *words, written(tmp_path, lines)).objects()
    assert [one["line"] for one in objects] == [2, 4]
