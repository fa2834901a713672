"""The kernel log as evidence."""

from pathlib import Path

import pytest

from gpuward.adapters import ring
from gpuward.adapters.ring import kernel_log_text
from gpuward.ports import Unreachable


def test_a_file_is_kept_whole(tmp_path: Path) -> None:
    log = tmp_path / "kern.log"
    log.write_bytes(b"one\ntwo \xff\n")
    assert kernel_log_text(str(log)) == b"one\ntwo \xff\n"


def test_of_a_long_file_the_newest_part_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring, "MOST_BYTES", 4)
    log = tmp_path / "kern.log"
    log.write_bytes(b"old new\n")
    assert kernel_log_text(str(log)) == b"new\n"


def test_a_file_that_is_gone_is_unreachable(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="cannot be read"):
        kernel_log_text(str(tmp_path / "none"))


def test_a_journal_that_does_not_answer_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(Unreachable, match="journal"):
        kernel_log_text("journal")


@pytest.mark.skipif(not Path("/dev/kmsg").is_char_device(), reason="no kernel ring here")
def test_the_ring_is_read_from_its_beginning() -> None:
    try:
        text = kernel_log_text("/dev/kmsg")
    except Unreachable as error:
        pytest.skip(str(error))
    assert text
