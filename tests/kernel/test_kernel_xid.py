"""What an Xid line says: address, process, instance, and the facts of each code."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuward.model.gpu import Mig
from gpuward.model.record import RecordKind
from tests.kit.lines import read_one
from tests.kit.render import XidShape


@pytest.mark.parametrize(
    ("where", "pci", "function", "certain"),
    [
        ("PCI:0000:3b:00", "0000:3b:00", None, True),
        ("PCI:0000:3B:00.0", "0000:3b:00", 0, True),
        ("0000:3b:00", "0000:3b:00", None, True),
        ("PCI:00000008:3b:00", "0008:3b:00", None, True),
        ("003b:00", "0000:3b:00", None, False),
    ],
)
def test_every_spelling_of_an_address_is_one(where: str, pci: str, function: int | None, certain: bool) -> None:  # noqa: FBT001  # a column of the table
    record = read_one(f"NVRM: Xid ({where}): 79, GPU has fallen off the bus.")
    assert (record.pci, record.function, record.certain) == (pci, function, certain)


@pytest.mark.parametrize(
    ("where", "mig"),
    [
        ("PCI:0000:3b:00 GPU-I:05", Mig(5, None)),
        ("PCI:0000:3b:00 GPU-I:05 GPU-CI:02", Mig(5, 2)),
        ("PCI:0000:3b:00 GPU-CI:02", Mig(None, 2)),
        ("PCI:0000:3b:00", None),
    ],
)
def test_the_mig_instance_is_read(where: str, mig: Mig | None) -> None:
    assert read_one(f"NVRM: Xid ({where}): 94, pid=7, Contained: SM (0x1). RST: No, D-RST: No").mig == mig


@pytest.mark.parametrize(
    ("rest", "pid", "process", "message"),
    [
        ("", None, None, ""),
        (",", None, None, ""),
        (", pid=7", 7, None, ""),
        (", pid=7,", 7, None, ""),
        (", pid=0, name=train, Ch 00000008", 0, "train", "Ch 00000008"),
        (", pid='<unknown>', name=<unknown>, Ch 00000008", None, None, "Ch 00000008"),
        (", pid=<n/a>, name=<unknown>, Ch 00000008", None, None, "Ch 00000008"),
        (", pid='77', name=train, Ch 00000008", 77, "train", "Ch 00000008"),
        (", pid=7,   name=train, Ch 00000008", 7, "train", "Ch 00000008"),
        (", pid=7, Ch 00000008", 7, None, "Ch 00000008"),
        (", pid=abc", None, None, "pid=abc"),
        (", pid=7, name=train", 7, "train", ""),
        (", pid=7, name=a, b c, Ch 00000008", 7, "a, b c", "Ch 00000008"),
        (", pid=7, name=a, Ch 00000008, intr 00000000", 7, "a", "Ch 00000008, intr 00000000"),
        (", pid=7, name=a, Ch 00000008", 7, "a", "Ch 00000008"),
        (", pid=7, name=a, Ch 1, Ch 00000008", 7, "a, Ch 1", "Ch 00000008"),
        (", pid=7, name=a, b c", 7, "a, b c", ""),
        (", pid=7, name=x,y, Ch 00000008", 7, "x,y", "Ch 00000008"),
        (", pid=7, name=python3, a wording, that is new", 7, "python3", "a wording, that is new"),
        (", pid=7, name=a, b, some wording that is new", 7, "a", "b, some wording that is new"),
        (", pid=7, name=b, RLW_CTRL Nonfatal XC0 i0 Link 00", 7, "b", "RLW_CTRL Nonfatal XC0 i0 Link 00"),
        (", pid=7, name=, Ch 00000008", 7, None, "Ch 00000008"),
    ],
)
def test_pid_name_and_message_are_told_apart(rest: str, pid: int | None, process: str | None, message: str) -> None:
    record = read_one(f"NVRM: Xid (PCI:0000:3b:00): 43{rest}")
    assert (record.kind, record.code) == (RecordKind.XID, 43)
    assert (record.pid, record.process, record.details["message"]) == (pid, process, message)


@pytest.mark.parametrize(
    "body",
    ["NVRM:  Xid  (PCI:0000:3b:00):  79,  x", "NVRM:\tXid (PCI:0000:3b:00):\t79,\tx", "NVRM: Xid(PCI:0000:3b:00):79,x"],
)
def test_more_or_no_blanks_in_an_xid_are_passed_over(body: str) -> None:
    record = read_one(body)
    assert (record.kind, record.code, record.pci) == (RecordKind.XID, 79, "0000:3b:00")
    assert record.details["message"] == "x"


MMU_FAULT = (
    "Ch 00000010, intr 00000000. MMU Fault: ENGINE GRAPHICS GPC1 GPCCLIENT_T1_3 faulted @ 0x2255_976f0000. "
    "Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ"
)
RPC_TIMEOUT = (
    "Timeout after 45s of waiting for RPC response from GPU0 GSP! Expected function 76 (GSP_RM_CONTROL) "
    "sequence 4129 (0x20800a4c 0x4)."
)


@pytest.mark.parametrize(
    ("code", "message", "details"),
    [
        (13, "Graphics SM Warp Exception on (GPC 1, TPC 2, SM 3): Out Of Range Address", {"gpc": 1, "tpc": 2, "sm": 3}),
        (13, "Graphics Exception: ChID 000c, Class 0000cbc0, Offset 00000000, Data 00000000", {"channel": 12}),
        (
            31,
            MMU_FAULT,
            {
                "channel": 16,
                "engine": "GRAPHICS",
                "address": "0x2255_976f0000",
                "fault_type": "FAULT_PDE",
                "access": "ACCESS_TYPE_VIRT_READ",
            },
        ),
        (45, "Ch 00000001 caused by previous Xid 149", {"channel": 1, "caused_by_xid": 149}),
        (
            48,
            "An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer at partition 3",
            {"memory": "framebuffer"},
        ),
        (48, "An uncorrectable double bit error (DBE) has been detected on GPU in SRAM", {"memory": "sram"}),
        (63, "Row Remapper: New row (0x0cce57afddf280d0) marked for remapping", {"row": "0x0cce57afddf280d0"}),
        (64, "Row Remapper Error: (0xdac73e71a264db50) - All reserved rows", {"row": "0xdac73e71a264db50"}),
        (74, "NVLink: fatal error detected on link 14(0x0, 0x1f, 0xa)", {"registers": [0, 31, 10]}),
        (94, "Contained: SM (0x1). RST: No, D-RST: Yes", {"unit": "SM", "rst": False, "d_rst": True}),
        (95, "Uncontained: LTC TAG (0x2, 0x1). RST: Yes, D-RST: No", {"unit": "LTC TAG", "rst": True, "d_rst": False}),
        (
            119,
            RPC_TIMEOUT,
            {"timeout_seconds": 45, "rpc_function": "GSP_RM_CONTROL"},
        ),
        (119, "Timeout waiting for RPC from GSP!", {}),
        (
            154,
            "GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)",
            {
                "recovery_from": "0x0",
                "recovery_from_label": "None",
                "recovery_to": "0x4",
                "recovery_to_label": "Drain and Reset",
            },
        ),
        (109, "channel 0x4002e277, errorString CTX SWITCH TIMEOUT, Info 0x682", {"channel": 0x4002E277}),
        (32, "Channel ID 00000036 intr 00008000", {"channel": 0x36}),
    ],
)
def test_the_facts_of_a_code_are_read(code: int, message: str, details: dict[str, Any]) -> None:
    record = read_one(f"NVRM: Xid (PCI:0000:3b:00): {code}, pid=7, name=train, {message}")
    assert record.details == {"message": message, **details}


def test_xid_74_names_its_link() -> None:
    assert read_one("NVRM: Xid (PCI:0000:3b:00): 74, NVLink: fatal error detected on link 14(0x0)").link == 14


@pytest.mark.parametrize(
    ("message", "severity", "link", "nvlink"),
    [
        (
            "RLW_REMAP  Nonfatal   XC1 i0 Link 07 (0x00000004 0x00000040)",
            "non-fatal",
            7,
            {"unit": "RLW_REMAP", "severity": "Nonfatal", "xc": "XC1", "i": 0, "words": ["0x00000004", "0x00000040"]},
        ),
        (
            "NETIR Fatal XC0 i0 Link -1 (0x000fe406 0x0)",
            "fatal",
            -1,
            {"unit": "NETIR", "severity": "Fatal", "xc": "XC0", "i": 0, "words": ["0x000fe406", "0x0"]},
        ),
        (
            "NETIR Fatal XC0 i0 Link 03 (0x000fe4",
            "fatal",
            3,
            {"unit": "NETIR", "severity": "Fatal", "xc": "XC0", "i": 0, "words": None},
        ),
        (
            "NETIR_LINK_EVT Fatal Link 3 (00000011 00000000)",
            "fatal",
            3,
            {
                "unit": "NETIR_LINK_EVT",
                "severity": "Fatal",
                "xc": None,
                "i": None,
                "words": ["0x00000011", "0x00000000"],
            },
        ),
    ],
)
def test_an_nvlink5_text_is_taken_apart(message: str, severity: str, link: int, nvlink: dict[str, Any]) -> None:
    record = read_one(f"NVRM: Xid (PCI:0000:3b:00): 149, pid=7, name=train, {message}")
    assert (record.severity, record.link) == (severity, link)
    assert record.details["nvlink"] == {**nvlink, "link": link}


def test_other_codes_have_no_nvlink_severity() -> None:
    record = read_one("NVRM: Xid (PCI:0000:3b:00): 43, RLW_REMAP Nonfatal XC1 i0 Link 07 (0x4 0x4)")
    assert (record.severity, "nvlink" in record.details) == (None, False)


@pytest.mark.parametrize(
    "body",
    [
        "NVRM: Xid",
        "NVRM: Xid 79",
        "NVRM:   Xid 79",
        "NVRM: Xid : 32, pid=9",
        "NVRM: Xid (PCI:0000:3b:00): abc, pid=9",
        "NVRM: Xid (PCI:0000:3b:00)",
        "NVRM: Xid (PCI:0000:3b:00): 79abc",
        "NVRM: Xid (PCI:0000:3b:7f): 79",
        "NVRM: Xid (nowhere): 79",
        "NVRM: Xid PCI:0000:3b:00: 43",
        "NVRM: Xid (PCI:0000:3b:00): 12345678901234567890",
    ],
)
def test_a_cut_or_broken_xid_line_is_malformed(body: str) -> None:
    record = read_one(body)
    assert (record.kind, record.code, record.pci) == (RecordKind.XID_MALFORMED, None, None)


NAMES = st.text(alphabet="abcXYZ019_.-:/()[]' ,", min_size=1, max_size=15).filter(
    lambda name: name == name.strip(" ,") and not name.startswith("<")
)
MESSAGES = st.sampled_from(
    [
        "Ch 00000008",
        "channel 0x4002e277, errorString CTX SWITCH TIMEOUT, Info 0x682",
        "GPU has fallen off the bus.",
        "Graphics Exception: ESR 0x1=0x2",
        "RLW_CTRL Nonfatal XC0 i0 Link 00 (0x3 0x8)",
        "Row Remapper: New row (0x1) marked for remapping, reset gpu to activate.",
        "Timeout after 6s of waiting for RPC response from GPU0 GSP!",
    ]
)


@given(
    st.builds(
        XidShape,
        domain=st.integers(0, 0xFFFF),
        bus=st.integers(0, 0xFF),
        device=st.integers(0, 0x1F),
        code=st.integers(1, 999),
        pid=st.none() | st.integers(0, 4_194_304),
        name=st.none() | NAMES,
        message=MESSAGES,
        gi=st.none() | st.integers(0, 14),
        ci=st.none() | st.integers(0, 7),
    )
)
def test_a_written_xid_line_reads_back(shape: XidShape) -> None:
    record = read_one(shape.body())
    mig = None if shape.gi is None and shape.ci is None else Mig(shape.gi, shape.ci)
    assert (record.kind, record.code, record.pci, record.mig) == (RecordKind.XID, shape.code, shape.pci(), mig)
    assert (record.pid, record.process, record.details["message"]) == (shape.pid, shape.name, shape.message)
