"""What the driver's other lines say: NVSwitch, lost GPUs, failed starts, versions, and PCIe errors."""

from typing import Any

import pytest

from gpuward.model.record import Record, RecordKind
from tests.kit.lines import XID, a_reader, a_signal, read_all, read_one

SWITCH = "nvidia-nvswitch3: SXid (PCI:0000:89:00.0): "


@pytest.mark.parametrize(
    ("rest", "part", "severity", "link", "details"),
    [
        ("20034, Fatal, Link 48 LTSSM Fault Up", "message", "fatal", 48, {"message": "Fatal, Link 48 LTSSM Fault Up"}),
        (
            "12028, Non-fatal, Link 32 egress non-posted PRIV error (First)",
            "message",
            "non-fatal",
            32,
            {"message": "Non-fatal, Link 32 egress non-posted PRIV error (First)", "first": True},
        ),
        ("20034, FATAL, Link 48 x", "message", "fatal", 48, {"message": "FATAL, Link 48 x"}),
        ("20034, fatal, Link 48 x", "message", "fatal", 48, {"message": "fatal, Link 48 x"}),
        ("12028, Non-Fatal, Link 7 x", "message", "non-fatal", 7, {"message": "Non-Fatal, Link 7 x"}),
        ("12028, NONFATAL", "message", "non-fatal", None, {"message": "NONFATAL"}),
        ("12028, corrected", "message", "correctable", None, {"message": "corrected"}),
        ("12028, Correctable, Link 7 x", "message", "correctable", 7, {"message": "Correctable, Link 7 x"}),
        ("20123, Unknown error", "message", None, None, {"message": "Unknown error"}),
        ("20123, Link 9 no severity word", "message", None, 9, {"message": "Link 9 no severity word"}),
        ("20123", "message", None, None, {"message": ""}),
        (
            "20034, Severity 1 Engine instance 60 Sub-engine instance 00",
            "severity",
            None,
            None,
            {"severity_number": 1, "engine": 60, "subengine": 0},
        ),
        ("20034, Severity 1", "severity", None, None, {"severity_number": 1}),
        ("20034, Data {0x0c3af4da, 0x               0}", "data", None, None, {"words": ["0x0c3af4da", "0x0"]}),
        ("20034, Data {0x0c3af4da, 0x0c3a", "data", None, None, {"words": ["0x0c3af4da", "0x0c3a"]}),
    ],
)
def test_each_line_of_an_sxid_is_read(  # one column each
    rest: str, part: str, severity: str | None, link: int | None, details: dict[str, Any]
) -> None:
    record = read_one(SWITCH + rest)
    assert (record.kind, record.pci, record.function, record.part) == (RecordKind.SXID, "0000:89:00", 0, part)
    assert (record.code, record.severity, record.link) == (int(rest[:5]), severity, link)
    assert record.details == {"nvswitch": 3, **details}


@pytest.mark.parametrize("rest", ["SXid (PCI:0000:89:00.0): xyz, Fatal", "SXid (invalid): error", "SXid"])
def test_a_broken_sxid_is_malformed(rest: str) -> None:
    assert read_one(f"nvidia-nvswitch0: {rest}").kind is RecordKind.SXID_MALFORMED


@pytest.mark.parametrize("text", ["nvidia-nvswitch2: open (major=510)", "nvidia-nvswitch: Probing device"])
def test_other_lines_of_the_switch_driver_are_other(text: str) -> None:
    assert read_one(text).kind is RecordKind.NVSWITCH_OTHER


UUID = "GPU-14b53336-126c-63bf-95e2-40f9e53bd02c"


@pytest.mark.parametrize(
    ("message", "kind", "pci", "details"),
    [
        (f"GPU at PCI:0000:3b:00: {UUID}", RecordKind.GPU_UUID, "0000:3b:00", {"uuid": UUID}),
        (f"GPU at 0000:3b:00.0: {UUID}", RecordKind.GPU_UUID, "0000:3b:00", {"uuid": UUID}),
        ("GPU at PCI:0000:3b:00: GPU-14b53336-...", RecordKind.GPU_UUID, "0000:3b:00", {}),
        (f"GPU at PCI:0000:3b:00: {UUID}0", RecordKind.GPU_UUID, "0000:3b:00", {}),
        ("GPU Board Serial Number: 1650000000001", RecordKind.BOARD_SERIAL, None, {"serial": "1650000000001"}),
        ("GPU Board Serial Number:", RecordKind.BOARD_SERIAL, None, {}),
        ("GPU 0000:3b:00.0: GPU serial number is 165.", RecordKind.BOARD_SERIAL, "0000:3b:00", {"serial": "165"}),
        ("GPU 0000:3b:00.0: GPU has fallen off the bus.", RecordKind.FALLEN_OFF_BUS, "0000:3b:00", {}),
        ("GPU at 0000:3b:00.0 has fallen off the bus.", RecordKind.FALLEN_OFF_BUS, "0000:3b:00", {}),
        ("GPU at PCI:0000:3b:00 has fallen off the bus.", RecordKind.FALLEN_OFF_BUS, "0000:3b:00", {}),
        (
            "GPU 0000:3b:00.0: RmInitAdapter failed! (0x24:0x65:1185)",
            RecordKind.RMINIT_FAILED,
            "0000:3b:00",
            {"codes": "0x24:0x65:1185"},
        ),
        ("RmInitAdapter failed! (0x30:0xde8a:660)", RecordKind.RMINIT_FAILED, None, {"codes": "0x30:0xde8a:660"}),
        (
            "GPU 0000:3b:00.0: rm_init_adapter failed, device minor number 2",
            RecordKind.RMINIT_FAILED,
            "0000:3b:00",
            {"minor": 2},
        ),
        ("rm_init_adapter(3) failed", RecordKind.RMINIT_FAILED, None, {"minor": 3}),
        ("rm_init_adapter failed for device bearing minor number 4", RecordKind.RMINIT_FAILED, None, {"minor": 4}),
        (
            "loading NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024",
            RecordKind.DRIVER_LOADED,
            None,
            {"driver_version": "535.183.01"},
        ),
        (
            "loading NVIDIA UNIX Open Kernel Module for x86_64  575.51.02  Release Build  (build@n1)",
            RecordKind.DRIVER_LOADED,
            None,
            {"driver_version": "575.51.02"},
        ),
        ("The NVIDIA GPU invalid-bdf.0", RecordKind.NVRM_OTHER, None, {}),
        ("GPU at PCI:0000:3b:7f: GPU-1", RecordKind.NVRM_OTHER, None, {}),
        ("os_schedule: Attempted to yield the CPU", RecordKind.NVRM_OTHER, None, {}),
        ("A GPU crash dump has been created. GPU has fallen off the bus?", RecordKind.NVRM_OTHER, None, {}),
    ],
)
def test_a_driver_line_is_known_by_its_words(
    message: str, kind: RecordKind, pci: str | None, details: dict[str, Any]
) -> None:
    record = read_one(f"NVRM: {message}")
    assert (record.kind, record.pci, record.details) == (kind, pci, details)


def kinds(records: list[Record | None]) -> list[RecordKind | None]:
    return [None if record is None else record.kind for record in records]


LOST = (
    "NVRM: The NVIDIA GPU 0000:3b:00.0",
    "NVRM: (PCI ID: 10de:2330) installed in this system has",
    "NVRM: fallen off the bus and is not responding to commands.",
)
OLD_MISMATCH = (
    "NVRM: API mismatch: the client has the version 550.54.15, but",
    "NVRM: this kernel module has the version 550.54.14.  Please",
    "NVRM: make sure that this kernel module and all NVIDIA driver",
    "NVRM: components have the same version.",
)
NEW_MISMATCH = (
    "NVRM: API mismatch: the client 'nvidia-smi' (pid 4242)",
    "NVRM: has the version 550.54.15, but this kernel module has",
    "NVRM: the version 550.54.14.  Please make sure that this",
    "NVRM: kernel module and all NVIDIA driver components",
    "NVRM: have the same version.",
)


@pytest.mark.parametrize("frame", ["", "[  123.456789] ", "Nov 30 03:12:07 n1 kernel: "])
def test_a_gpu_lost_in_three_lines_is_lost_at_the_third(frame: str) -> None:
    start, middle, end = read_all([frame + line for line in LOST])
    assert start is not None
    assert middle is not None
    assert end is not None
    assert (start.kind, start.pci) == (RecordKind.MULTILINE_START, "0000:3b:00")
    assert (middle.kind, middle.pci, middle.details) == (RecordKind.CONTINUATION, None, {"of": 1})
    assert (end.kind, end.pci, end.part) == (RecordKind.FALLEN_OFF_BUS, "0000:3b:00", "multiline-end")
    assert end.details == {"of": 1}


def test_lines_of_other_programs_may_stand_between_the_three() -> None:
    records = read_all([LOST[0], "usb 1-2: new", LOST[1], "NVRM: os_schedule: x", LOST[2]])
    assert kinds(records)[-1] is RecordKind.FALLEN_OFF_BUS
    assert records[-1] is not None
    assert records[-1].pci == "0000:3b:00"


def test_a_third_line_long_after_its_first_names_no_gpu() -> None:
    records = read_all([LOST[0], *[""] * 20, LOST[2]])
    assert records[-1] is not None
    assert (records[-1].kind, records[-1].pci) == (RecordKind.FALLEN_OFF_BUS, None)


@pytest.mark.parametrize("lines", [OLD_MISMATCH, NEW_MISMATCH])
def test_a_version_mismatch_is_known_once_both_versions_are_read(lines: tuple[str, ...]) -> None:
    records = read_all([*lines, XID])
    complete = [record for record in records if record is not None and record.kind is RecordKind.VERSION_MISMATCH]
    assert len(complete) == 1
    assert complete[0].details == {"client_version": "550.54.15", "kernel_version": "550.54.14", "of": 1}
    later = kinds(records)[complete[0].line : -1]
    assert set(later) == {RecordKind.CONTINUATION}
    assert kinds(records)[-1] is RecordKind.XID


@pytest.mark.parametrize(
    "text",
    [
        "3,9,1000000,-;" + "\\x0a".join(NEW_MISMATCH),
        "Nov 30 03:12:07 n1 kernel: " + "#012".join(NEW_MISMATCH),
        " ".join([NEW_MISMATCH[0], *(line.removeprefix("NVRM: ") for line in NEW_MISMATCH[1:])]),
        " ".join([OLD_MISMATCH[0], *(line.removeprefix("NVRM: ") for line in OLD_MISMATCH[1:])]),
    ],
)
def test_a_version_mismatch_may_come_as_one_record(text: str) -> None:
    record = read_one(text)
    assert record.kind is RecordKind.VERSION_MISMATCH
    assert record.details == {"client_version": "550.54.15", "kernel_version": "550.54.14"}


def test_a_lost_gpu_in_one_kmsg_record_is_lost() -> None:
    record = read_one("3,9,1000000,-;" + "\\x0a".join(LOST))
    assert (record.kind, record.pci) == (RecordKind.FALLEN_OFF_BUS, "0000:3b:00")


@pytest.mark.parametrize(
    ("cut", "rest"),
    [
        ("Sep 07 10:08:03 NVRM: Xid (PCI:0000:3b:00): 109, pid=9,", "name=(udev-x), channel 0x1, CTX SWITCH TIMEOUT"),
        ("NVRM: Xid (0000:3b:00): 16, ", "Head 00000000 Count 00006e2e"),
        ("NVRM: Xid (PCI:0000:3b:00): 149, NETIR Fatal XC0 i0 Link 01 (0x0586d015", "0x00000000 0x00000000)"),
    ],
)
def test_the_rest_of_a_wrapped_xid_line_is_its_continuation(cut: str, rest: str) -> None:
    records = read_all([cut, rest, rest])
    assert kinds(records) == [RecordKind.XID, RecordKind.CONTINUATION, None]
    assert records[1] is not None
    assert records[1].details == {"of": 1, "rest": rest}


def test_a_line_that_does_not_follow_at_once_is_no_continuation() -> None:
    reader = a_reader()
    assert reader.read(a_signal("NVRM: Xid (0000:3b:00): 16, ", 1)) is not None
    assert reader.read(a_signal("Head 00000000 Count 00006e2e", 3)) is None


def test_a_whole_xid_line_has_no_continuation() -> None:
    assert kinds(read_all([XID, "Head 00000000 Count 00006e2e"])) == [RecordKind.XID, None]


@pytest.mark.parametrize(
    ("text", "printed", "severity", "driver", "target"),
    [
        (
            "nvidia 0000:3b:00.0: AER: PCIe Bus Error: severity=Uncorrected (Fatal), type=x",
            "fatal",
            "fatal",
            "nvidia",
            None,
        ),
        (
            "nvidia 0000:3b:00.0: PCIe Bus Error: severity=Uncorrectable (Non-Fatal), type=Transaction Layer",
            "non-fatal",
            "non-fatal",
            "nvidia",
            None,
        ),
        (
            "nvidia 0000:3b:00.0: PCIe Bus Error: severity=Correctable, type=x",
            "corrected",
            "correctable",
            "nvidia",
            None,
        ),
        ("nvidia 0000:3b:00.0: AER: can't recover (no error_detected callback)", None, None, "nvidia", None),
        (
            "pcieport 0000:3b:00.0: AER: Uncorrectable (Fatal) error message received from 0000:5e:00.0",
            "fatal",
            "fatal",
            "pcieport",
            "0000:5e:00",
        ),
        (
            "pcieport 0000:3b:00.0: AER: Multiple Corrected error received: 0000:5e:00.0",
            "corrected",
            "correctable",
            "pcieport",
            "0000:5e:00",
        ),
        ("pcieport 0000:3b:00.0: AER: Corrected error received: id=00e5", "corrected", "correctable", "pcieport", None),
        ("pcieport 0000:3b:00.0:   device [8086:1901] error status/mask=00004000/0", None, None, "pcieport", None),
        ("pcieport 0000:3b:00.0:    [14] CmpltTO                (First)", None, None, "pcieport", None),
    ],
)
def test_a_pcie_error_line_is_read(
    text: str, printed: str | None, severity: str | None, driver: str, target: str | None
) -> None:
    record = read_one(f"[  123.456789] {text}")
    assert (record.kind, record.pci, record.severity) == (RecordKind.AER, "0000:3b:00", severity)
    assert record.details == {
        "aer_severity": printed,
        "driver": driver,
        "target": target,
        "of_gpu": driver == "nvidia",
    }


def test_a_port_that_names_a_known_gpu_speaks_of_that_gpu() -> None:
    port = "pcieport 0000:5d:00.0: AER: Uncorrected (Fatal) error received: 0000:5e:00.0"
    seen = read_all([port, XID.replace("3b", "5e"), port])
    assert [record.details["of_gpu"] for record in (seen[0], seen[2]) if record is not None] == [False, True]
    assert read_one(port, gpus=frozenset({"0000:5e:00"})).details["of_gpu"] is True


def test_an_error_of_the_gpus_own_address_is_of_a_gpu_under_any_driver() -> None:
    record = read_one("vfio-pci 0000:5e:00.0: AER: PCIe Bus Error: severity=Fatal", gpus=frozenset({"0000:5e:00"}))
    assert (record.details["of_gpu"], record.severity) == (True, "fatal")


@pytest.mark.parametrize("gap", ["", " "])
@pytest.mark.parametrize("frame", ["kernel: ", "Nov 30 03:12:07 n1 kernel: ", "[  123.456789] "])
def test_a_repeated_line_is_read_with_its_times(frame: str, gap: str) -> None:
    record = read_one(f"{frame}message repeated 2 times: [{gap}{XID}]")
    assert (record.kind, record.code, record.pci, record.process) == (RecordKind.XID, 31, "0000:3b:00", "train")
    assert record.details == {"message": "Ch 00000008", "channel": 8, "repeated": 2}


@pytest.mark.parametrize(
    ("inner", "kind"),
    [
        (f"[  123.456789] {XID}", RecordKind.XID),
        (SWITCH + "20034, Fatal, Link 48 x", RecordKind.SXID),
        ("NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.", RecordKind.FALLEN_OFF_BUS),
        ("nvidia 0000:3b:00.0: AER: PCIe Bus Error: severity=Uncorrected (Fatal), type=x", RecordKind.AER),
    ],
)
def test_every_line_of_ours_may_be_repeated(inner: str, kind: RecordKind) -> None:
    record = read_one(f"n1 kernel: message repeated 11 times: [ {inner}]")
    assert (record.kind, record.details["repeated"]) == (kind, 11)


@pytest.mark.parametrize(
    "text",
    [
        "kernel: message repeated 2 times: [ usb 1-2: new]",
        "kernel: message repeated many times: [ x]",
        "kernel: " + "message repeated 2 times: [" * 5000,
    ],
)
def test_a_repeated_line_of_others_is_nothing_of_ours(text: str) -> None:
    assert a_reader().read(a_signal(text)) is None


def test_a_port_in_front_of_a_known_gpu_gives_the_gpus_address() -> None:
    record = read_one(
        "pcieport 0000:3a:00.0: AER: Uncorrected (Fatal) error received: 0000:3b:00.1", gpus=frozenset({"0000:3b:00"})
    )
    assert (record.kind, record.pci, record.function, record.certain) == (RecordKind.AER, "0000:3b:00", 1, True)
    assert (record.details["of_gpu"], record.details["bridge"], record.severity) == (True, "0000:3a:00", "fatal")


@pytest.mark.parametrize("known", [[], ["0000:3a:00"], ["0000:3a:00", "0000:3b:00"]])
def test_another_device_that_names_a_sender_keeps_its_address(known: list[str]) -> None:
    line = "pcieport 0000:3a:00.0: AER: Corrected error received: 0000:3b:00.0"
    record = read_one(line, gpus=frozenset(known))
    assert (record.pci, "bridge" in record.details) == ("0000:3a:00", False)


@pytest.mark.parametrize("text", ["nvidia-nvswitch3:  SXid  (PCI:0000:89:00.0):  20034,  Fatal,  Link 4 x"])
def test_more_blanks_in_an_sxid_are_passed_over(text: str) -> None:
    record = read_one(text)
    assert (record.kind, record.code, record.severity, record.link) == (RecordKind.SXID, 20034, "fatal", 4)
