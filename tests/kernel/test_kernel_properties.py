"""No text raises, and what is written in a frame reads back."""

import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuward.isolation.kernel.reader import NEEDLES
from gpuward.model.record import RecordKind
from tests.kit import render
from tests.kit.lines import NOW, XID, a_reader, a_signal, read_one
from tests.kit.render import Written

MICROSECONDS = st.integers(0, 10**13)
SECONDS = st.integers(int(NOW) - 360 * 86_400, int(NOW))
WALL = st.integers((int(NOW) - 360 * 86_400) * 10**6, int(NOW) * 10**6)
NODE = st.from_regex(r"[a-z][a-z0-9-]{0,10}[a-z0-9](\.[a-z]{2,5})?", fullmatch=True)
PRIORITY = st.sampled_from([(4, "kern"), (12, "user"), (30, "daemon"), (7, "kern")])
BODIES = st.sampled_from(
    [
        XID,
        "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        "NVRM: Xid (PCI:0000:3b:00): 43, pid=9, name=träin \\x, Ch 00000008",
    ]
)
WRITTEN = st.one_of(
    st.builds(render.uptime, BODIES, microseconds=MICROSECONDS, thread=st.booleans()),
    st.builds(render.dmesg_t, BODIES, second=SECONDS),
    st.builds(render.dmesg_iso, BODIES, microseconds=WALL),
    st.builds(
        render.dmesg_decode, BODIES, facility=st.sampled_from(["kern", "user", "authpriv"]), microseconds=MICROSECONDS
    ),
    st.builds(
        lambda body, pri, us: render.kmsg(body, priority=pri[0], facility=pri[1], microseconds=us),
        BODIES,
        PRIORITY,
        MICROSECONDS,
    ),
    st.builds(
        lambda body, pri, us: render.pstore(body, priority=pri[0], facility=pri[1], microseconds=us),
        BODIES,
        PRIORITY,
        MICROSECONDS,
    ),
    st.builds(render.syslog, BODIES, node=NODE, second=SECONDS, microseconds=st.none() | MICROSECONDS),
    st.builds(
        lambda body, pri, us, node: render.syslog5424(
            body, node=node, priority=pri[0], facility=pri[1], microseconds=us
        ),
        BODIES,
        PRIORITY,
        WALL,
        NODE,
    ),
    st.builds(render.short_iso, BODIES, node=NODE, second=SECONDS),
    st.builds(render.short_precise, BODIES, node=NODE, microseconds=WALL),
    st.builds(
        render.talos,
        BODIES,
        node=st.sampled_from(["192.0.2.9", "2001:db8::7", "fd00::1"]) | NODE,
        facility=st.sampled_from(["kern", "user"]),
        severity=st.sampled_from(["err", "info", "warning", "alert"]),
        microseconds=WALL,
    ),
    st.builds(render.journal_json, BODIES, node=NODE, microseconds=WALL, as_bytes=st.booleans()),
)
REAL = st.one_of(
    WRITTEN.map(lambda written: written.text),
    st.sampled_from(
        [
            "nvidia-nvswitch1: SXid (PCI:0000:b3:00.0): 20034, Data {0x0c3af4da, 0x0c3af4da}",
            "nvidia-nvswitch1: SXid (PCI:0000:b3:00.0): 20034, Severity 1 Engine instance 60 Sub-engine instance 00",
            "NVRM: Xid (PCI:0000:3b:00): 145, RLW_REMAP Nonfatal XC1 i0 Link 07 (0x00000004 0x00000040)",
            "NVRM: Xid (PCI:0000:3b:00): 74, NVLink: fatal error detected on link 14(0x0, 0x1f, 0xa)",
            "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)",
            "NVRM: GPU at PCI:0000:3b:00: GPU-14b53336-126c-63bf-95e2-40f9e53bd02c",
            "NVRM: API mismatch: the client has the version 550.54.15, but this kernel module has the version 550.5",
            "NVRM: The NVIDIA GPU 0000:3b:00.0",
            "pcieport 0000:3b:00.0: AER: Corrected error received: 0000:5e:00.0",
            '{"MESSAGE": [78, 86], "__REALTIME_TIMESTAMP": "1"}',
            '{"MESSAGE": "NVRM: Xid (PCI:0000:3b:00): 79", "_HOSTNAME": "\\ud800", "_BOOT_ID": "\\ud800"}',
        ]
    ),
)
ANY = st.text(alphabet=st.characters(codec=None), max_size=200)
"""Surrogates as well: they stand for bytes that are not UTF-8."""


def must_hold(text: str) -> None:
    """Read `text` between two good lines; nothing raises and what comes out can be shown and saved."""
    reader = a_reader()
    for number, line in enumerate((XID, text, XID), start=1):
        record = reader.read(a_signal(line, number))
        if record is not None:
            details = json.dumps(record.details, ensure_ascii=False, allow_nan=False)
            for shown in (record.text, record.process or "", record.node or "", record.boot, details):
                shown.encode()  # raises for what no terminal and no file can take
            assert len(record.text) <= 4096
            assert "\x1b" not in record.text


def test_a_slow_machine_fails_no_property() -> None:
    profile = settings()
    assert (profile.deadline, profile.suppress_health_check) == (None, (HealthCheck.too_slow,))


@given(WRITTEN)
def test_a_written_frame_reads_back(written: Written) -> None:
    record = read_one(written.text)
    assert record.kind is RecordKind.XID
    assert (record.frame, record.node, record.facility) == (written.frame, written.node, written.facility)
    assert record.moment.uptime == (None if written.uptime is None else pytest.approx(written.uptime, abs=1e-6))
    assert record.moment.wall == (None if written.wall is None else pytest.approx(written.wall, abs=1e-5))


@given(ANY)
def test_no_text_raises(text: str) -> None:
    must_hold(text)


@given(
    ANY,
    st.sampled_from(
        ["NVRM: Xid (", "NVRM: ", "nvidia-nvswitch0: SXid (", "{", "4,1,2,-;", "<", "[", "x.log:", "MESSAGE=", '[{"']
    ),
)
def test_no_text_behind_a_known_opening_raises(text: str, opening: str) -> None:
    must_hold(opening + text)


@given(REAL, st.data())
def test_a_real_line_cut_or_with_garbage_in_it_raises_nothing(line: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(line)))
    end = data.draw(st.integers(start, len(line)))
    garbage = data.draw(ANY | st.sampled_from(["(" * 50, "9" * 400, "\0", "\n", "٣", "[" * 50]))
    must_hold(line[:start])
    must_hold(line[start:])
    must_hold(line[:start] + garbage + line[end:])


@pytest.mark.parametrize(
    "text",
    [
        "[" * 200_000,
        '{"MESSAGE": ' + "[" * 200_000,
        '{"MESSAGE": ' + "9" * 10_000 + "}",
        '{"MESSAGE": "x", "__REALTIME_TIMESTAMP": ' + "9" * 4_000 + "}",
        "[" + "9" * 400 + ".0] NVRM: Xid (PCI:0000:3b:00): 79",
        "[9999-99-99T99:99:99Z] NVRM: Xid",
        "NVRM: Xid (PCI:0000:3b:00): 79" + " " * 200_000,
        "NVRM: Xid (PCI:0000:3b:00): 149, " + "A " * 100_000 + "Fatal",
        "<4>1 - h kernel - - " + '[a b="' * 10_000,
        "NVRM: API mismatch: " + "has the version 1.1 " * 10_000,
        "kernel: " + "message repeated 2 times: [" * 20_000,
        "/" * 1_000_000 + ":[1.0] NVRM: Xid",
        "x.log:" * 50_000,
        "x:" * 500_000 + " kern: err: [2026-11-30T03:12:07Z]: NVRM: Xid",
        "[ , " * 100_000 + '{"MESSAGE": "NVRM: Xid',
        "x" * 1_000_000 + " 30 03:12:07",
    ],
)
def test_hostile_lines_raise_nothing(text: str) -> None:
    must_hold(text)


@given(WRITTEN, st.sampled_from(["/var/log/kern.log.1", "kern.log", "messages", "dmesg.0", "out.txt"]))
def test_a_written_frame_behind_a_file_name_reads_the_same(written: Written, file: str) -> None:
    plain, behind = read_one(written.text), read_one(f"{file}:{written.text}")
    assert replace(behind, text=plain.text) == plain


@given(WRITTEN)
def test_every_written_line_holds_a_needle_unless_it_is_a_list_of_bytes(written: Written) -> None:
    raw = written.text.encode("utf-8", "surrogateescape")
    assert any(needle in raw for needle in NEEDLES) or '"MESSAGE": [' in written.text
