"""`gpuward watch` on this machine's own kernel log: lines are really written to it, on addresses no GPU has here."""

import secrets
import time
from datetime import datetime
from pathlib import Path

import pytest

from tests.kit.kmsg import kmsg_writer
from tests.kit.watching import Running, watching, xid_text

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("kmsg")]


@pytest.fixture
def pci() -> str:
    """Return an address that no line in the kernel's ring has been about."""
    number = secrets.randbelow(1 << 20)
    return f"{0xA000 + (number >> 13):04x}:{number >> 5 & 0xFF:02x}:{number & 0x1F:02x}"


def of(running: Running, token: str) -> list[dict[str, object]]:
    return [told for told in running.objects() if any(token in line["text"] for line in told["evidence"])]


def test_a_line_in_the_kernel_log_is_told_within_a_second_with_its_time(pci: str, tmp_path: Path) -> None:
    token = secrets.token_hex(8)
    with (
        kmsg_writer() as write,
        watching("--kernel-log", "/dev/kmsg", "--accept-user-records", "--json", "--state-dir", tmp_path) as running,
    ):
        write(xid_text(31, f"before {token}", pci=pci).encode())
        running.wait_for(lambda line: f"before {token}" in line)
        now = time.time_ns() / 1e9
        write(xid_text(79, f"GPU has fallen off the bus. {token}", pci=pci).encode())
        running.wait_for(lambda line: f"bus. {token}" in line)
        assert running.stop() == 0
    [told] = of(running, f"bus. {token}")
    assert (told["change"], told["level"], told["pci"], told["code"]) == ("began", "P0", pci, 79)
    at, told_at = (datetime.fromisoformat(str(told[one])).timestamp() for one in ("time", "told"))
    assert now - 0.010 <= at <= told_at + 0.010, "however far the records' clock has drifted since the boot"
    assert told_at - now < 1.0
    assert told["history"] is False
    assert str(told["id"]).rpartition(".")[2].startswith("k")


def test_a_line_that_a_user_wrote_into_the_kernel_log_does_not_act(pci: str) -> None:
    token = secrets.token_hex(8)
    with kmsg_writer() as write, watching("--kernel-log", "/dev/kmsg", "--json") as running:
        for code in (79, 48, 62, 31):
            write(xid_text(code, f"code {code} {token}", pci=pci).encode())
        running.wait_for(lambda line: f"code 31 {token}" in line)
        assert running.stop() == 0
    told = of(running, token)
    assert {one["code"] for one in told} == {79, 48, 62, 31}
    assert {one["level"] for one in told} <= {"P2", "ignore"}


def test_without_a_choice_the_kernel_log_is_watched() -> None:
    with kmsg_writer(), watching() as running:
        assert running.complaints[0] == "gpuward: watching /dev/kmsg; nothing on this machine is changed\n"
        assert running.stop() == 0


def test_a_restart_goes_on_in_the_ring_and_tells_nothing_twice(pci: str, tmp_path: Path) -> None:
    token = secrets.token_hex(8)
    words = ("--kernel-log", "/dev/kmsg", "--accept-user-records", "--json", "--state-dir", tmp_path)
    with kmsg_writer() as write:
        with watching(*words) as first:
            write(xid_text(79, f"GPU has fallen off the bus. {token}", pci=pci).encode())
            first.wait_for(lambda line: token in line)
            assert first.stop() == 0
        write(xid_text(45, f"Ch 00000008 {token}", pci=pci).encode())
        with watching(*words) as second:
            second.wait_for(lambda line: token in line)
            assert second.stop() == 0
    [lost], [torn] = of(first, token), of(second, token)
    assert (torn["code"], torn["explained_by"], torn["history"]) == (45, lost["id"], False)
    assert len(second.complaints) == 1
