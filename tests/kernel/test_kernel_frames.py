"""What each frame tells: its name, time, facility, host and program; and what is only quoted."""

import json
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from gpuward.isolation.kernel.frames import split_frame
from gpuward.model.record import RecordKind
from tests.kit.lines import XID, a_reader, a_signal, read_one


def at(*parts: int) -> float:
    return datetime(*parts, tzinfo=UTC).timestamp()  # type: ignore[arg-type, misc]  # six numbers, then the zone


NIGHT = at(2026, 11, 30, 3, 12, 7)


@pytest.mark.parametrize(
    ("text", "frame", "wall", "uptime", "facility", "node"),
    [
        (f"[  123.456789] {XID}", "uptime", None, 123.456789, None, None),
        (f"[  123.456789][   T99] {XID}", "uptime", None, 123.456789, None, None),
        (f"[  123.456789] [ C3] {XID}", "uptime", None, 123.456789, None, None),
        (f"[  123.456789 <    0.000011>] {XID}", "uptime", None, 123.456789, None, None),
        (f"[  123.456789] rack7-n3 kernel: {XID}", "uptime", None, 123.456789, None, "rack7-n3"),
        (f"[Mon Nov 30 03:12:07 2026] {XID}", "dmesg-T", NIGHT, None, None, None),
        (f"[Sat Nov  7 03:12:07 2026] {XID}", "dmesg-T", at(2026, 11, 7, 3, 12, 7), None, None, None),
        (f"[Sat Nov 7 03:12:07 2026] {XID}", "dmesg-T", at(2026, 11, 7, 3, 12, 7), None, None, None),
        (f"2026-11-30T04:12:07,250000+01:00 {XID}", "dmesg-iso", NIGHT + 0.25, None, None, None),
        (f"kern  :warn  : 2026-11-30T03:12:07,250000+00:00 {XID}", "dmesg-decode", NIGHT + 0.25, None, "kern", None),
        (f"user  :warn  : [  123.456789] {XID}", "dmesg-decode", None, 123.456789, "user", None),
        (f"kern  :err   : [Mon Nov 30 03:12:07 2026] {XID}", "dmesg-decode", NIGHT, None, "kern", None),
        (f"4,77,123456789,-;{XID}", "kmsg", None, 123.456789, "kern", None),
        (f"12,77,123456789,-,caller=T9;{XID}", "kmsg", None, 123.456789, "user", None),
        (f"<4>[  123.456789] {XID}", "pstore", None, 123.456789, "kern", None),
        (f"<4>{XID}", "pstore", None, None, "kern", None),
        (f"Nov 30 03:12:07 n1 kernel: {XID}", "syslog", NIGHT, None, None, "n1"),
        (f"Nov 30 03:12:07 n1 kernel: [  123.456789] {XID}", "syslog", NIGHT, 123.456789, None, "n1"),
        (f"Nov 30 03:12:07 n1 kern.warn kernel: [  123.456789] {XID}", "syslog", NIGHT, 123.456789, "kern", "n1"),
        (f"Nov 30 03:12:07 kernel: {XID}", "syslog", NIGHT, None, None, None),
        (f"Nov 30 03:12:07 {XID}", "syslog", NIGHT, None, None, None),
        (f"<4>Nov 30 03:12:07 n1 kernel: {XID}", "syslog", NIGHT, None, "kern", "n1"),
        (f"<12>Nov 30 03:12:07 n1 kernel: {XID}", "syslog", NIGHT, None, "user", "n1"),
        (f"<4>1 2026-11-30T03:12:07.250Z n1 kernel - - - {XID}", "syslog5424", NIGHT + 0.25, None, "kern", "n1"),
        (
            f'<4>1 2026-11-30T03:12:07Z n1 kernel - - [a b="\\]"][c] [ 5.5] {XID}',
            "syslog5424",
            NIGHT,
            5.5,
            "kern",
            "n1",
        ),
        (f"<12>1 - n1 kernel - ID - \ufeff{XID}", "syslog5424", None, None, "user", "n1"),
        (f"2026-11-30T03:12:07+0000 n1 kernel: {XID}", "journal-short-iso", NIGHT, None, None, "n1"),
        (
            f"2026-11-30T03:12:07.25-05:00 n1 kernel: [ 5.5] {XID}",
            "journal-short-iso",
            NIGHT + 18000.25,
            5.5,
            None,
            "n1",
        ),
        (f"Nov 30 03:12:07.250000 n1 kernel: {XID}", "journal-short-precise", NIGHT + 0.25, None, None, "n1"),
        (f"Mon 2026-11-30 03:12:07 UTC n1 kernel: {XID}", "journal-short-full", NIGHT, None, None, "n1"),
        (f"{int(NIGHT)}.250000 n1 kernel: {XID}", "journal-short-unix", NIGHT + 0.25, None, None, "n1"),
        (
            f"192.0.2.9: kern: warning: [2026-11-30T03:12:07.250000000Z]: {XID}",
            "talos",
            NIGHT + 0.25,
            None,
            "kern",
            "192.0.2.9",
        ),
        (f"192.0.2.9: kern:     err: [2026-11-30T03:12:07Z]: {XID}", "talos", NIGHT, None, "kern", "192.0.2.9"),
        (f"gpu-17: kern:    info: [2026-11-30T03:12:07Z]: {XID}", "talos", NIGHT, None, "kern", "gpu-17"),
        (f"n1.example: user: warning: [2026-11-30T03:12:07Z]: {XID}", "talos", NIGHT, None, "user", "n1.example"),
        (f"2001:db8::7: kern:   alert: [2026-11-30T03:12:07Z]: {XID}", "talos", NIGHT, None, "kern", "2001:db8::7"),
        (f"kernel: {XID}", "kernel-colon", None, None, None, None),
        (f"n1 kernel: [  123.456789] {XID}", "kernel-colon", None, 123.456789, None, "n1"),
        (XID, "none", None, None, None, None),
        (f"   {XID}", "none", None, None, None, None),
        (f"[...] {XID}", "none", None, None, None, None),
        (f"[…] {XID}", "none", None, None, None, None),
        (f"[02:14:33] {XID}", "none", None, None, None, None),
        (f"[  +0.000012] {XID}", "none", None, None, None, None),
        (f"[Nov30 03:12] {XID}", "none", None, None, None, None),
    ],
)
def test_a_frame_tells_its_time_and_sender(  # one column each
    text: str, frame: str, wall: float | None, uptime: float | None, facility: str | None, node: str | None
) -> None:
    record = read_one(text)
    assert (record.kind, record.code, record.pci) == (RecordKind.XID, 31, "0000:3b:00")
    assert (record.frame, record.facility, record.node) == (frame, facility, node)
    assert record.moment.wall == (None if wall is None else pytest.approx(wall, abs=1e-6))
    assert record.moment.uptime == uptime


@pytest.mark.parametrize("month", ["11月", "nov.", "листопада", "Dez"])
def test_a_month_that_is_not_english_leaves_the_time_unknown(month: str) -> None:
    record = read_one(f"{month} 30 03:12:07 n1 kernel: {XID}")
    assert (record.kind, record.node, record.moment.wall) == (RecordKind.XID, "n1", None)


def test_a_week_day_that_is_not_english_still_frames_the_line() -> None:
    record = read_one(f"[一 11月 30 03:12:07 2026] {XID}")
    assert (record.kind, record.frame, record.moment.wall) == (RecordKind.XID, "dmesg-T", None)


@pytest.mark.parametrize(
    "text",
    [
        f"Nov 30 03:12:07 n1 ticketd[77]: {XID}",
        f"Nov 30 03:12:07 n1 nhc: found: [  123.456789] {XID}",
        f"2026-11-30T03:12:07+0000 n1 python3[9]: {XID}",
        f"<14>1 2026-11-30T03:12:07Z n1 health 9 - - {XID}",
        f"node-7 | ERROR: Xid seen: {XID}",
        f"[  123.456789] n1 health[9]: {XID}",
        f"4,77,123456789,-;systemd[1]: {XID}",
        f'{{"log": "{XID}"}}',
        f"Nov 30 03:12:07 n1 {XID}",
        f"Nov 30 03:12:07 n1 [  123.456789] {XID}",
        f"Nov 30 03:12:07.250000 n1 {XID}",
        f"Nov 30 03:12:07 n1 kern.warn {XID}",
        f"11月 30 03:12:07 n1 {XID}",
        f"<4>Nov 30 03:12:07 n1 {XID}",
        f"2026-11-30T03:12:07,250000+00:00 n1 {XID}",
        f"2026-11-30T03:12:07+0000 n1 kernel[1234]: {XID}",
        f"Nov 30 03:12:07 n1 kernel[1234]: {XID}",
        f"Nov 30 03:12:07 n1 kernel[1234]: [  123.456789] {XID}",
        f"<4>1 2026-11-30T03:12:07Z n1 kernel 1234 - - {XID}",
        f'<4>1 2026-11-30T03:12:07Z n1 kernel 1234 ID [a b="c"] {XID}',
        "Nov 30 03:12:07 n1 nvidia-nvswitch0: SXid (PCI:0000:89:00.0): 20009, Fatal, Link 1",
        f"n1 kernel: nhc: message repeated 2 times: [ {XID}]",
        f"Nov 30 03:12:07 n1 nhc: message repeated 2 times: [ {XID}]",
        f"nhc: [12.3] {XID}",
        f"nhc:[12.3] {XID}",
        f"dmesgd:[12.3] {XID}",
        f"syslog-ng:[12.3] {XID}",
        f"/usr/bin/nhc: [12.3] {XID}",
        f"/var/log/kern.log:{XID}",
        f"/var/log/kern.log:nhc: {XID}",
        f"/var/log/kern.log:Nov 30 03:12:07 n1 nhc[7]: {XID}",
        "Nov 30 03:12:07 n1 health: nvidia-nvswitch0: SXid (PCI:0000:89:00.0): 20009, Fatal, Link 1",
    ],
)
def test_an_xid_that_another_program_prints_is_quoted(text: str) -> None:
    record = read_one(text)
    assert (record.kind, record.code) == (RecordKind.XID_QUOTED, None)


@pytest.mark.parametrize(
    "text",
    [
        "Nov 30 03:12:07 n1 installer[7]: NVRM: GPU at 0000:3b:00.0 has fallen off the bus.",
        " SUBSYSTEM=pci",
        " DEVICE=+pci:0000:3b:00.0",
        "",
        "{}",
        "{",
        "[  123.456789] ixgbe 0000:3b:00.0: XID 641 of the adapter",
    ],
)
def test_lines_of_others_are_nothing_of_ours(text: str) -> None:
    assert a_reader().read(a_signal(text)) is None


@pytest.mark.parametrize(
    "file", ["/var/log/kern.log.1", "kern.log", "./old/x", "messages", "messages-20261129", "syslog.2.gz"]
)
@pytest.mark.parametrize(
    ("line", "frame", "wall", "uptime", "node"),
    [
        (f"Nov 30 03:12:07 gpu-17 kernel: {XID}", "syslog", NIGHT, None, "gpu-17"),
        (f"[   12.300000] {XID}", "uptime", None, 12.3, None),
        (f"2026-11-30T03:12:07+0000 n1 kernel: {XID}", "journal-short-iso", NIGHT, None, "n1"),
        (f"gpu-17: kern:     err: [2026-11-30T03:12:07Z]: {XID}", "talos", NIGHT, None, "gpu-17"),
        (f"n1 kernel: {XID}", "kernel-colon", None, None, "n1"),
    ],
)
def test_a_file_name_that_grep_prints_is_taken_off(  # one column each
    file: str, line: str, frame: str, wall: float | None, uptime: float | None, node: str | None
) -> None:
    record = read_one(f"{file}:{line}")
    assert (record.kind, record.code, record.frame) == (RecordKind.XID, 31, frame)
    assert (record.moment.wall, record.moment.uptime, record.node) == (wall, uptime, node)


@pytest.mark.parametrize(
    "text",
    [
        f"[  123.456789]\t{XID}",
        f"[  123.456789]   {XID}",
        f"[Mon Nov 30 03:12:07 2026]\t{XID}",
        f"2026-11-30T03:12:07,250000+00:00\t{XID}",
        f"Nov 30 03:12:07\t{XID}",
        f"Nov 30 03:12:07 n1 kernel:\t{XID}",
        f"Nov 30 03:12:07 n1 kernel: [  123.456789]\t{XID}",
        f"<4>1 2026-11-30T03:12:07Z n1 kernel - - -  {XID}",
        f"kernel:\t{XID}",
    ],
)
def test_tabs_and_more_blanks_after_a_stamp_are_passed_over(text: str) -> None:
    record = read_one(text)
    assert (record.kind, record.code, record.process) == (RecordKind.XID, 31, "train")


def test_a_program_between_frame_and_message_stays_in_the_body() -> None:
    frame = split_frame("[  123.456789] health[9]: NVRM: Xid")
    assert (frame.name, frame.body) == ("uptime", "health[9]: NVRM: Xid")


def test_a_driver_name_before_an_address_is_not_a_host() -> None:
    record = read_one("Nov 30 03:12:07 pcieport 0000:3a:00.0: AER: Corrected error received: 0000:3b:00.0")
    assert (record.kind, record.pci, record.node) == (RecordKind.AER, "0000:3a:00", None)


def entry(message: object, **fields: object) -> str:
    return json.dumps(
        {
            "__REALTIME_TIMESTAMP": str(int(NIGHT * 1e6)),
            "__MONOTONIC_TIMESTAMP": "90000000",
            "_BOOT_ID": "0a1b2c3d4e5f60718293a4b5c6d7e8f9",
            "_HOSTNAME": "n1",
            "_TRANSPORT": "kernel",
            "SYSLOG_FACILITY": "0",
            "SYSLOG_IDENTIFIER": "kernel",
            "MESSAGE": message,
            **fields,
        }
    )


@pytest.mark.parametrize("message", [XID, list(XID.encode()), [XID, "again"], [list(XID.encode()), list(b"again")]])
def test_a_journal_message_may_be_text_bytes_or_several(message: object) -> None:
    record = read_one(entry(message))
    assert (record.kind, record.code, record.process, record.frame) == (RecordKind.XID, 31, "train", "journal-json")
    assert (record.node, record.boot, record.facility) == ("n1", "0a1b2c3d", "kern")
    assert (record.moment.wall, record.moment.uptime) == (NIGHT, 90.0)


@pytest.mark.parametrize("before", ["  ", "[", "[ ", ",", ", ", "\x1e", "data: ", "data:", "\t"])
@pytest.mark.parametrize("behind", ["", ",", " ]", "]", ", "])
def test_an_entry_of_an_array_or_a_stream_is_read(before: str, behind: str) -> None:
    record = read_one(before + entry(XID) + behind)
    assert (record.kind, record.frame, record.facility) == (RecordKind.XID, "journal-json", "kern")
    assert (record.node, record.moment.uptime) == ("n1", 90.0)


SXID = "nvidia-nvswitch0: SXid (PCI:0000:89:00.0): 20009, Fatal, Link 1"


@pytest.mark.parametrize(
    ("body", "kind"), [(XID, RecordKind.XID_MALFORMED), (SXID, RecordKind.SXID_MALFORMED)], ids=["xid", "sxid"]
)
@pytest.mark.parametrize(
    "shape",
    [
        "MESSAGE={}",
        "    MESSAGE={}",
        '\t"MESSAGE" : "{}",',
        '    "MESSAGE": "{}"',
        '{{"_TRANSPORT": "kernel", "MESSAGE": "{}',
        '[{{"MESSAGE": "{}"}},{{"MESSAGE": "x"}}]',
        "old/x.log:MESSAGE={}",
    ],
)
def test_an_entry_that_is_cut_or_stands_on_many_lines_is_malformed(shape: str, body: str, kind: RecordKind) -> None:
    record = read_one(shape.format(body))
    assert (record.kind, record.code, record.pci) == (kind, None, None)
    assert record.details == {"hint": "use journalctl -o json"}


@pytest.mark.parametrize(
    "text", [f"MESSAGE=job 7 failed: {XID}", f'\t"MESSAGE" : "job 7 failed: {XID}",', f"SYSLOG_RAW={XID}"]
)
def test_a_field_of_another_program_only_quotes(text: str) -> None:
    assert read_one(text).kind is RecordKind.XID_QUOTED


@pytest.mark.parametrize("text", ["MESSAGE=usb 1-2: new", '\t"MESSAGE" : "usb 1-2: new",', '{"MESSAGE": "usb 1-2: ne'])
def test_a_cut_entry_without_an_xid_is_nothing_of_ours(text: str) -> None:
    assert a_reader().read(a_signal(text)) is None


@pytest.mark.parametrize("message", [None, [], [256], [-1], [1.5], {"a": 1}, 7, True, [[[78]]]])
def test_a_journal_message_of_another_form_is_empty(message: object) -> None:
    assert a_reader().read(a_signal(entry(message))) is None


def test_the_records_own_clock_goes_before_the_time_of_arrival() -> None:
    own_uptime = read_one(entry(XID, _SOURCE_MONOTONIC_TIMESTAMP="80000000"))
    assert (own_uptime.moment.wall, own_uptime.moment.uptime) == (NIGHT - 10, 80.0)
    own_wall = read_one(entry(XID, _SOURCE_REALTIME_TIMESTAMP=str(int((NIGHT - 3) * 1e6))))
    assert own_wall.moment.wall == NIGHT - 3


@pytest.mark.parametrize(
    ("transport", "number", "facility"),
    [
        ("kernel", "0", "kern"),
        ("kernel", "1", "user"),
        ("syslog", "0", "user"),
        ("syslog", "3", "daemon"),
        ("stdout", None, "user"),
        ("kernel", "99", "facility99"),
        (None, None, None),
    ],
)
def test_only_the_kernels_own_transport_is_kern(
    transport: str | None, number: str | None, facility: str | None
) -> None:
    record = read_one(entry(XID, _TRANSPORT=transport, SYSLOG_FACILITY=number))
    assert (record.kind, record.facility) == (RecordKind.XID, facility)


def test_a_line_that_a_user_wrote_to_dev_kmsg_is_an_xid_of_facility_user() -> None:
    message = XID.removeprefix("NVRM: ")
    record = read_one(entry(message, SYSLOG_FACILITY="1", SYSLOG_IDENTIFIER="NVRM"))
    assert (record.kind, record.facility) == (RecordKind.XID, "user")


def test_an_xid_in_the_journal_of_another_program_is_quoted() -> None:
    assert read_one(entry(XID, _TRANSPORT="stdout", SYSLOG_IDENTIFIER="trainer")).kind is RecordKind.XID_QUOTED


@pytest.mark.parametrize("priority", [192, 800, 99999])
def test_a_facility_beyond_the_table_is_never_kern(priority: int) -> None:
    assert read_one(f"{priority},77,123456789,-;{XID}").facility == f"facility{priority // 8}"


def test_kmsg_escapes_are_undone() -> None:
    record = read_one("4,77,1000000,-;NVRM: Xid (PCI:0000:3b:00): 31, pid=9, name=tr\\xc3\\xa4in\\x1b, Ch 00000008")
    assert record.process == "träin?"


def test_colours_line_ends_and_leading_nul_are_taken_off() -> None:
    record = read_one(f"\0\0\0\x1b[32m[  123.456789] \x1b[0m\x1b[33mNVRM: \x1b[0m{XID[6:]}\r")
    assert (record.kind, record.process) == (RecordKind.XID, "train")
    assert record.text == f"[  123.456789] {XID}"


def test_control_characters_become_question_marks() -> None:
    record = read_one("NVRM: Xid (PCI:0000:3b:00): 31, pid=9, name=a\0b\u202e, Ch\t00000008 \udcff\x07")
    assert record.process == "a?b?"
    assert record.text.endswith("Ch\t00000008 ??")
    assert record.text.encode()


def test_a_very_long_line_is_cut_and_still_read() -> None:
    record = read_one(f"[  123.456789] {XID} {'x' * 5_000_000}")
    assert (record.code, len(record.text)) == (31, 4096)


def test_stamps_without_zone_are_in_the_zone_of_the_context() -> None:
    record = read_one(f"Nov 30 03:12:07 n1 kernel: {XID}", timezone=ZoneInfo("America/New_York"))
    assert record.moment.wall == NIGHT + 5 * 3600
