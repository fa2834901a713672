"""What a reader carries from line to line: boots, clocks, addresses, UUIDs, and whom it believes."""

from datetime import UTC, datetime

import pytest

from gpuward.model.record import Record, RecordKind
from gpuward.model.signal import NEVER, Moment
from tests.kit.lines import NOW, XID, a_reader, a_signal, read_all, read_one

UUID = "GPU-14b53336-126c-63bf-95e2-40f9e53bd02c"
UUID_LINE = f"NVRM: GPU at PCI:0000:3b:00: {UUID}"
LOADED = "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  575.51.02  Release Build"
NVLINK = "NVRM: Xid (PCI:0000:3b:00): 145, RLW_REMAP Nonfatal XC1 i0 Link 07 (0x4 0x40)"
LINUX = "Linux version 6.8.0-45-generic (build@n1)"


def boots(records: list[Record | None]) -> list[str | None]:
    return [None if record is None else record.boot for record in records]


def test_the_first_boot_is_b1_even_if_it_begins_with_its_kernel_version() -> None:
    assert boots(read_all([f"[    0.000000] {LINUX}", f"[   99.000000] {XID}"])) == ["b1", "b1"]


def test_a_step_back_of_the_uptime_is_a_new_boot() -> None:
    lines = [f"[  900.000000] {XID}", "[    0.000000] Booting", f"[    0.000000] {LINUX}", f"[   99.000000] {XID}"]
    assert boots(read_all(lines)) == ["b1", None, "b2", "b2"]


def test_records_a_little_out_of_order_are_of_one_boot() -> None:
    assert boots(read_all([f"[  900.900000] {XID}", f"[  900.000000] {XID}"])) == ["b1", "b1"]


def test_a_kernel_version_without_uptime_is_a_new_boot() -> None:
    stamp = "Nov 30 03:12:07 n1 kernel: "
    assert boots(read_all([stamp + XID, stamp + LINUX, stamp + XID, stamp + LINUX])) == ["b1", "b2", "b2", "b3"]


def test_a_kernel_version_that_a_user_wrote_is_no_new_boot() -> None:
    assert boots(read_all([f"4,1,1000000,-;{XID}", f"12,2,1000001,-;{LINUX}", f"4,3,1000002,-;{XID}"]))[2] == "b1"


def test_the_parts_of_a_crash_dump_are_one_boot_in_any_order() -> None:
    assert boots(read_all([f"<4>[  900.000000] {XID}", f"<4>[    5.000000] {XID}"])) == ["b1", "b1"]


def test_a_known_boot_keeps_its_name() -> None:
    lines = [f"4,1,900000000,-;{XID}", f"4,2,5000000,-;{LINUX}", f"4,3,6000000,-;{XID}"]
    assert boots(read_all(lines, boot="c0ffee12")) == ["c0ffee12"] * 3


def entry(boot: str, body: str) -> str:
    return f'{{"_BOOT_ID": "{boot}{"0" * 24}", "MESSAGE": "{body}", "_TRANSPORT": "kernel", "SYSLOG_FACILITY": "0"}}'


def test_a_journal_entry_names_its_boot() -> None:
    lines = [entry("0a1b2c3d", UUID_LINE), entry("0a1b2c3d", LINUX), entry("11112222", XID)]
    reader = a_reader()
    assert boots([reader.read(a_signal(line)) for line in lines]) == ["0a1b2c3d", "0a1b2c3d", "11112222"]
    assert reader.gpu_uuids == {}


def test_a_new_boot_forgets_driver_uuids_and_addresses() -> None:
    reader = a_reader()
    first = [LOADED, UUID_LINE, NVLINK, "NVRM: The NVIDIA GPU 0000:3b:00.0"]
    records = [reader.read(a_signal(f"[  900.000000] {line}", n)) for n, line in enumerate(first, start=1)]
    assert records[2] is not None
    assert records[2].details["driver_version"] == "575.51.02"
    assert reader.gpu_uuids == {"0000:3b:00": UUID}
    later = reader.read(a_signal(f"[    9.000000] {NVLINK}", 5))
    assert later is not None
    assert "driver_version" not in later.details
    assert reader.gpu_uuids == {}
    end = reader.read(a_signal("NVRM: fallen off the bus and is not responding to commands.", 6))
    assert end is not None
    assert end.pci is None


def test_a_users_text_teaches_nothing() -> None:
    reader = a_reader()
    for line in (LOADED, UUID_LINE, "NVRM: Xid (PCI:0007:3b:00): 79"):
        record = reader.read(a_signal(f"12,1,1000000,-;{line}"))
        assert record is not None
        assert record.facility == "user"
    assert reader.gpu_uuids == {}
    nvlink = reader.read(a_signal(NVLINK))
    short = reader.read(a_signal("NVRM: Xid (003b:00): 79"))
    assert nvlink is not None
    assert "driver_version" not in nvlink.details
    assert short is not None
    assert (short.pci, short.certain) == ("0000:3b:00", True)


USER_STAMPS = ("Nov 30 03:12:08 n1 nhc: [    5.000000] ", "<12>Nov 30 03:12:08 n1 kernel: [    5.000000] ")


@pytest.mark.parametrize("stamp", USER_STAMPS)
def test_an_uptime_that_a_user_wrote_is_neither_a_boot_nor_a_clock(stamp: str) -> None:
    kernel = "Nov 30 03:12:07 n1 kernel: [  900.000000] "
    reader = a_reader()
    lines = (kernel + UUID_LINE, stamp + XID, "n1 kernel: [  910.000000] " + XID)
    records = [reader.read(a_signal(line)) for line in lines]
    assert boots(records) == ["b1", "b1", "b1"]
    assert reader.moment().wall == datetime(2026, 11, 30, 3, 12, 17, tzinfo=UTC).timestamp()
    assert reader.gpu_uuids == {"0000:3b:00": UUID}


def test_a_kernel_version_that_another_program_prints_is_no_new_boot() -> None:
    kernel = "Nov 30 03:12:07 n1 kernel: "
    assert boots(read_all([kernel + XID, f"Nov 30 03:12:07 n1 inventory[7]: {LINUX}", kernel + XID]))[2] == "b1"


@pytest.mark.parametrize(
    "user", ["NVRM: The NVIDIA GPU 0000:5e:00.0", "NVRM: fallen off the bus and is not responding"]
)
def test_a_users_text_joins_no_message_of_the_kernel(user: str) -> None:
    start = "NVRM: The NVIDIA GPU 0000:3b:00.0 (PCI ID: 10de:2330) installed in this system has"
    end = "NVRM: fallen off the bus and is not responding to commands."
    records = read_all([f"4,1,1000000,-;{start}", f"12,2,1000001,-;{user}", f"4,3,1000002,-;{end}"])
    assert records[1] is not None
    assert records[2] is not None
    assert (records[1].facility, records[1].details) == ("user", {})
    assert (records[2].kind, records[2].pci) == (RecordKind.FALLEN_OFF_BUS, "0000:3b:00")


@pytest.mark.parametrize(
    ("known", "pci", "certain"),
    [
        ([], "0000:3b:00", False),
        (["0007:3b:00"], "0007:3b:00", True),
        (["0007:3c:00"], "0000:3b:00", False),
        (["0007:3b:00", "0008:3b:00"], "0000:3b:00", False),
    ],
)
def test_an_address_of_two_parts_is_completed_by_the_only_one_known(known: list[str], pci: str, certain: bool) -> None:  # noqa: FBT001  # a column of the table
    lines = [f"NVRM: Xid (PCI:{address}): 31" for address in known]
    for records in (
        read_all([*lines, "NVRM: Xid (003b:00): 79"]),
        read_all(["NVRM: Xid (003b:00): 79"], gpus=frozenset(known)),
    ):
        assert records[-1] is not None
        assert (records[-1].pci, records[-1].certain) == (pci, certain)


def test_the_address_of_a_switch_completes_no_gpus() -> None:
    records = read_all(["nvidia-nvswitch0: SXid (PCI:0007:3b:00.0): 20009, Fatal", "NVRM: Xid (003b:00): 79"])
    assert records[1] is not None
    assert records[1].certain is False


def test_an_uptime_becomes_a_wall_time_with_the_boot_time() -> None:
    assert read_one(f"[  100.500000] {XID}", boot_time=NOW).moment == Moment(NOW + 100.5, 100.5)
    assert read_one(f"[  100.500000] {XID}").moment == Moment(None, 100.5)


def test_the_given_boot_time_is_for_the_first_boot_alone() -> None:
    records = read_all([f"[  900.000000] {XID}", f"[    9.000000] {XID}"], boot_time=NOW)
    assert [record.moment.wall for record in records if record is not None] == [NOW + 900, None]


def test_a_line_with_both_clocks_teaches_the_boot_time() -> None:
    lines = [f"Nov 30 03:12:07 n1 kernel: [  900.000000] {XID}", f"[  910.000000] {XID}"]
    records = read_all(lines, boot_time=5.0)
    expected = datetime(2026, 11, 30, 3, 12, 17, tzinfo=UTC).timestamp()
    assert records[1] is not None
    assert records[1].moment == Moment(expected, 910.0)


def test_a_fresh_boot_time_is_followed() -> None:
    reader = a_reader(boot_time=NOW)
    reader.renew(now=NOW, boot_time=NOW + 60)
    record = reader.read(a_signal(f"[  100.000000] {XID}"))
    assert record is not None
    assert record.moment.wall == NOW + 160


def test_the_newest_moment_is_that_of_any_line_with_a_time() -> None:
    reader = a_reader(boot_time=NOW)
    assert reader.moment() == NEVER
    for text, moment in (
        ("[  100.000000] usb 1-2: new", Moment(NOW + 100, 100.0)),
        ("no time here", Moment(NOW + 100, 100.0)),
        (" DEVICE=+pci:0000:3b:00.0", Moment(NOW + 100, 100.0)),
        ("6,9,200000000,-;usb 1-2: new", Moment(NOW + 200, 200.0)),
    ):
        reader.read(a_signal(text))
        assert reader.moment() == moment


def test_a_record_keeps_the_place_of_its_line() -> None:
    record = a_reader(node="n9").read(a_signal(XID, 7))
    assert record is not None
    assert (record.source, record.line, record.cursor, record.node) == ("kern.log", 7, "f7", "n9")
    assert read_one(f"Nov 30 03:12:07 n1 kernel: {XID}", node="n9").node == "n1"


def test_a_kernel_version_is_a_boot_record() -> None:
    assert read_one(f"4,1,2,-;{LINUX}").kind is RecordKind.BOOT
