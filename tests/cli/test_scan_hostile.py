"""Hostile content of logs: `gpuward scan` reads the good lines around it and shows nothing that could do harm."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.kit.commands import Answer, ask, ask_process

BODY = "NVRM: Xid (PCI:0000:3b:00): 79, pid=4321, name=train, GPU has fallen off the bus."
BEFORE = f"2026-11-20T03:12:07+00:00 ember kernel: {BODY}".encode()
AFTER = b"2026-11-20T09:00:00+00:00 ember kernel: NVRM: Xid (PCI:0000:86:00): 48, DBE (double bit error)"
MANY_DIGITS = "9" * 5000
HARMFUL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def around(tmp_path: Path, bad: bytes) -> Path:
    """Write a log with a good line before and after something bad."""
    path = tmp_path / "bad.log"
    path.write_bytes(BEFORE + b"\n" + bad + b"\n" + AFTER + b"\n")
    return path


def codes(answer: Answer) -> list[Any]:
    return [one["code"] for one in answer.objects()]


@pytest.mark.parametrize(
    "bad",
    [
        bytes(range(256)) * 40,
        b"\xff\xfe\x80\xc0 NVRM: Xid \xed\xa0\x80",
        b"\0" * 100_000,
        b"NVRM: Xid (PCI:0000:3b:00): " + b"y" * 300_000,
        b"NVRM: " * 50_000,
        b"\x1f\x8b\x08\x00 not gzip after all",
        b"(" * 60_000 + b"NVRM: Xid",
        b'{"MESSAGE":"NVRM: Xid","a":' + b"[" * 60_000,
        b'{"MESSAGE":"NVRM: Xid","a":' * 2_000,
    ],
    ids=["all-bytes", "bad-utf8", "nuls", "long", "long-driver", "magic", "brackets", "nested-json", "nested-objects"],
)
def test_the_good_lines_around_bad_bytes_are_read(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, bad: bytes
) -> None:
    answer = ask(capsys, "scan", "--json", around(tmp_path, bad))
    assert [code for code in codes(answer) if code is not None] == [79, 48]
    assert answer.code == 1
    assert "Traceback" not in answer.err


def test_a_line_that_is_too_long_is_named_and_counted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    err = ask(capsys, "scan", around(tmp_path, b"y" * 70_000)).err
    assert "line 2 is longer than 64 KiB and was passed over" in err
    assert err.endswith("gpuward: 3 lines read, 2 recognised, 1 unparsed\n")


def test_very_many_lines_that_are_too_long_make_few_notes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    err = ask(capsys, "scan", around(tmp_path, b"\n".join([b"y" * 66_000] * 50))).err
    assert err.count("passed over") == 20
    assert "30 further notes are not shown" in err
    assert err.endswith("gpuward: 52 lines read, 2 recognised, 50 unparsed\n")


@pytest.mark.parametrize("ending", ["\r\n", "\n\r\n"])
def test_every_line_end_is_a_line_end(capsys: pytest.CaptureFixture[str], tmp_path: Path, ending: str) -> None:
    path = tmp_path / "crlf.log"
    path.write_bytes(ending.encode().join([BEFORE, AFTER, b""]))
    answer = ask(capsys, "scan", "--json", path)
    assert codes(answer) == [79, 48]
    assert answer.objects()[0]["evidence"][0]["text"] == BEFORE.decode()


def test_a_lone_carriage_return_begins_no_line_of_the_kernel(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "forged.log"
    path.write_bytes(b"Nov 30 03:12:07 gpu-1 node-check: done\r" + BEFORE + b"\n" + AFTER + b"\n")
    assert codes(ask(capsys, "scan", "--json", path)) == [48]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"])
def test_other_unicode_encodings_are_read(capsys: pytest.CaptureFixture[str], tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "wide.log"
    path.write_bytes((BEFORE + b"\r\n" + AFTER).decode().encode(encoding))
    assert codes(ask(capsys, "scan", "--json", path)) == [79, 48]


def test_a_gzip_file_cut_short_gives_its_whole_lines_and_exit_code_3(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    whole = gzip.compress(b"\n".join([BEFORE, *(b"%032x" % (at * 7919**9) for at in range(500)), AFTER]))
    path = tmp_path / "kern.log.1.gz"
    path.write_bytes(whole[: len(whole) // 2])
    answer = ask(capsys, "scan", "--json", path)
    assert (answer.code, codes(answer)) == (3, [79])
    assert "is cut short" in answer.err


def test_what_is_no_text_is_refused_by_name(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "image.bin"
    path.write_bytes(bytes(range(256)) * 400)
    answer = ask(capsys, "scan", path)
    assert answer.code == 3
    assert f"{path} is not text" in answer.err


@pytest.mark.parametrize(
    "hostile",
    [
        "\x1b[31mred\x1b[0m",
        "\x1b]0;title\x07",
        "\x1b]8;;http://example.invalid\x1b\\link\x1b]8;;\x1b\\",
        "\x1bP1$r\x1b\\",
        "\x9b31m",
        "\x1b[2J\x1b[1;1H",
        "a\rb\bc\x07\x0b\x0c",
        "\u202egnp.exe",
        "\u2066x\u2069",
        "\u2028\u0085",
        "\x1b",
    ],
)
def test_terminal_sequences_come_out_harmless(capsys: pytest.CaptureFixture[str], tmp_path: Path, hostile: str) -> None:
    texts = [
        f"2026-11-20T03:12:07+00:00 ember kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name={hostile}, {hostile} x",
        f"Nov 20 03:12:07 {hostile} kernel: {BODY}",
        json.dumps(
            {"MESSAGE": f"NVRM: Xid (PCI:0000:3b:00): 48, {hostile}", "_HOSTNAME": hostile, "_TRANSPORT": "kernel"}
        ),
        f"2026-11-20T03:12:08+00:00 ember job[1]: {hostile} NVRM: Xid (PCI:0000:3b:00): 79, quoted",
        f"NVRM: Xid (PCI:0000:3b:00): 31,\n{hostile}",
    ]
    path = tmp_path / "hostile.log"
    path.write_text("\n".join(texts), encoding="utf-8")
    for words in ([], ["--json"], ["--lines"], ["--lines", "--json"]):
        answer = ask(capsys, "scan", "--all", "--timezone", "UTC", *words, path)
        assert not HARMFUL.search(answer.out), words
        assert not HARMFUL.search(answer.err), words
        assert "79" in answer.out


def test_a_file_name_cannot_write_on_the_terminal_either(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    long_line = tmp_path / "\x1b[31mred\n.log"
    long_line.write_bytes(b"y" * 70_000)
    answer = ask(capsys, "scan", long_line, tmp_path / "\x1b]0;gone\x07")
    assert "passed over" in answer.err
    assert "is not there" in answer.err
    assert not HARMFUL.search(answer.err)
    assert answer.err.count("\n") == 3


def test_markup_is_shown_as_it_is(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    line = "2026-11-20T03:12:07+00:00 [red]ember[/] kernel: NVRM: Xid (PCI:0000:3b:00): 79, name=[/bold], [x] :bug:"
    path = tmp_path / "markup.log"
    path.write_text(line, encoding="utf-8")
    assert ask(capsys, "scan", path).code in {0, 1}
    rows = ask(capsys, "scan", "--lines", path).out
    assert "name=[/bold], [x] :bug:" in rows
    node = ask(capsys, "scan", "--node", "[red]x[/]", around(tmp_path, BODY.encode())).out
    assert "on [red]x[/]" in node


@pytest.mark.parametrize(
    "line",
    [
        f"[{'9' * 300}.000000] {BODY}",
        f"[1e300] {BODY}",
        f"[9999999999.999999] {BODY}",
        f"[-5.000000] {BODY}",
        f"99999-11-20T03:12:07+00:00 ember kernel: {BODY}",
        f"[Fri Nov 20 03:12:07 99999] {BODY}",
        f"0000-11-20T03:12:07+00:00 ember kernel: {BODY}",
        f"9999-12-31T23:59:60-23:59 ember kernel: {BODY}",
        f"6,1,{'9' * 18},-;{BODY}",
        f"6,{MANY_DIGITS},{MANY_DIGITS},-;{BODY}",
        f"<{MANY_DIGITS}>[    1.000000] {BODY}",
        f"<99999>[    1.000000] {BODY}",
        f"99999999999.123456 ember kernel: {BODY}",
        f"NVRM: Xid (PCI:0000:3b:00): {MANY_DIGITS}, boo",
        "NVRM: Xid (PCI:0000:3b:00): -79, boo",
        "NVRM: Xid (PCI:0000:3b:00): 79e300, boo",
        "NVRM: Xid (PCI:0000:3b:00): ٧٩, boo",
        f"NVRM: Xid (PCI:0000:3b:00): 79, pid={'4' * 400}, name=x, boo",
        "NVRM: Xid (PCI:0000:3b:00): 79, pid=-1, name=x, boo",
        f"NVRM: Xid (PCI:0000:3b:00 GPU-I:{MANY_DIGITS}): 79, boo",
        f"NVRM: Xid (PCI:{MANY_DIGITS}): 79, boo",
        f"NVRM: Xid (PCI:0000:3b:00): 74, NVLink error on link {MANY_DIGITS} (0x{'f' * 5000}, 0x0)",
        f"NVRM: Xid (PCI:0000:3b:00): 144, SAW Nonfatal XC0 i{MANY_DIGITS} Link -99 (0x{'f' * 5000})",
        f"NVRM: Xid (PCI:0000:3b:00): 119, Timeout after {MANY_DIGITS}s of waiting for RPC",
        f"NVRM: Xid (PCI:0000:3b:00): 13, (GPC {MANY_DIGITS}, TPC 99999, SM -1)",
        f"NVRM: Xid (PCI:0000:3b:00): 45, caused by previous Xid {MANY_DIGITS}",
        f"nvidia-nvswitch{MANY_DIGITS}: SXid (PCI:0000:05:00.0): 12028, Fatal, Link {MANY_DIGITS} x",
        f"nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 12028, Severity {MANY_DIGITS} Engine instance {MANY_DIGITS}",
        f"NVRM: loading NVIDIA UNIX Kernel Module  {MANY_DIGITS}.{MANY_DIGITS}  x",
        f'{{"MESSAGE":"{BODY}","__REALTIME_TIMESTAMP":"{MANY_DIGITS}"}}',
        f'{{"MESSAGE":"{BODY}","__REALTIME_TIMESTAMP":{MANY_DIGITS}}}',
        f'{{"MESSAGE":"{BODY}","__REALTIME_TIMESTAMP":"{"9" * 18}","__MONOTONIC_TIMESTAMP":"0"}}',
        f'{{"MESSAGE":"{BODY}","__REALTIME_TIMESTAMP":1e999,"PRIORITY":NaN}}',
        f'{{"MESSAGE":"{BODY}","__REALTIME_TIMESTAMP":"-1","SYSLOG_FACILITY":"-1"}}',
    ],
)
def test_absurd_numbers_stop_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path, line: str) -> None:
    path = around(tmp_path, line.encode())
    for words in (["--json"], ["--json", "--boot-time", "99999999999"], [], ["--lines"], ["--lines", "--json"]):
        answer = ask(capsys, "scan", "--all", "--timezone", "+14:00", *words, path)
        assert answer.code == (0 if "--lines" in words else 1)
        assert "3 lines read" in answer.err
        if "--json" in words:
            assert {79, 48} <= {one["code"] for one in answer.objects()}


@pytest.mark.parametrize(
    "value", [None, True, -1, 0, 1.5, 10**30, "", "x", "\ud800", [], [[]], {}, {"a": [1]}, [256], [-1]]
)
def test_a_journal_entry_may_have_the_wrong_type_in_every_field(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, value: Any
) -> None:
    fields = [
        "__CURSOR", "__REALTIME_TIMESTAMP", "__MONOTONIC_TIMESTAMP", "_SOURCE_MONOTONIC_TIMESTAMP", "_BOOT_ID",
        "_SOURCE_REALTIME_TIMESTAMP", "_TRANSPORT", "SYSLOG_FACILITY", "SYSLOG_IDENTIFIER", "_HOSTNAME", "PRIORITY",
    ]  # fmt: skip
    entries = [{"MESSAGE": BODY, "_TRANSPORT": "kernel", name: value} for name in fields]
    entries += [{"MESSAGE": BODY, **dict.fromkeys(fields, value)}, {"MESSAGE": value, "x": BODY}]
    bad = "\n".join([json.dumps(entry) for entry in entries] + [json.dumps([value, BODY]), json.dumps(value)])
    for words in ([], ["--lines"]):
        answer = ask(capsys, "scan", "--json", "--all", *words, around(tmp_path, bad.encode()))
        assert answer.code == (0 if words else 1)
        assert {79, 48} <= {one["code"] for one in answer.objects()}


frames = st.sampled_from(
    [
        "",
        "[  100.500000] ",
        "[    1.000000] ",
        "Nov 20 03:12:07 n kernel: ",
        "6,1,1000000,-;",
        "14,2,9,c;",
        "<6>[ 5.0] ",
    ]
)
openings = st.sampled_from(
    [
        "NVRM: Xid (PCI:0000:3b:00): ",
        "NVRM: Xid (PCI:0000:3b:00): 144, ",
        "NVRM: Xid (PCI:0000:3b:00): 74, NVLink: fatal error detected on link ",
        "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to ",
        "NVRM: Xid (PCI:3b:00): 45, ",
        "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, ",
        "nvidia 0000:3b:00.0: PCIe Bus Error: severity=",
        "NVRM: The NVIDIA GPU 0000:3b:00.0",
        "NVRM: API mismatch: ",
        "Linux version ",
        '{"MESSAGE": "NVRM: Xid (PCI:0000:3b:00): ',
    ]
)
ends = st.one_of(
    st.text(max_size=60),
    st.from_regex(r"\A[0-9]{1,6}, pid=[0-9]{1,6}, name=[^\n]{0,20}, [^\n]{0,40}\Z"),
    st.from_regex(r"\A(RLW|SAW|MSE)\w* (Fatal|Nonfatal) XC[01] i[0-9] Link [0-9]{1,3} \((0x[0-9a-f]{1,9} ?){1,8}\)\Z"),
    st.from_regex(r"\A[0-9]{1,5} ?\((0x[0-9a-f]{1,9}, ?){1,8}0x0\)\Z"),
)
lines = st.tuples(frames, openings, ends).map("".join)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(lines, min_size=1, max_size=12))
def test_no_log_makes_scan_fail_or_show_harm(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, texts: list[str]
) -> None:
    path = tmp_path / "any.log"
    path.write_bytes("\n".join(texts).encode("utf-8", "surrogatepass"))
    for words in (["--json"], [], ["--lines", "--json"]):
        answer = ask(capsys, "scan", "--all", *words, path)
        assert answer.code in {0, 1}
        assert not HARMFUL.search(answer.out)
        if "--json" in words:
            assert all(one["kind"] for one in answer.objects())


def test_no_traceback_comes_out_of_the_process_either() -> None:
    content = b"\n".join([BEFORE, bytes(range(256)) * 300, b"{" * 70_000, f"NVRM: Xid: {MANY_DIGITS}".encode(), AFTER])
    answer = ask_process("scan", "--json", stdin=content)
    assert (answer.code, [code for code in codes(answer) if code]) == (1, [79, 48])
    assert "Traceback" not in answer.err
