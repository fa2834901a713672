"""What FinishedLog says of a file's first lines."""

import gzip
import io
import lzma
import os
from pathlib import Path

from gpuward.adapters.logfile import FinishedLog
from gpuward.model.signal import Signal
from gpuward.ports import Tally

NEEDLES = (b"NVRM",)
GOOD = b"[    7.000000] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."
OTHER = b"[    7.500000] eth0: link is up"


def test_the_head_is_the_first_lines_whatever_they_are(tmp_path: Path) -> None:
    file = tmp_path / "a.log.gz"
    file.write_bytes(gzip.compress(b"\n".join([OTHER, b"", b"x" * 70_000, GOOD + b",", OTHER, OTHER])))
    log = FinishedLog("a.log", str(file), needles=NEEDLES)
    assert [one.text for one in log.head(4)] == [OTHER.decode(), "", GOOD.decode() + ",", OTHER.decode()]
    assert [one.line for one in log.head(9)] == [1, 2, 4, 5, 6]
    assert log.tally() == Tally(lines=0, skipped=0)
    assert [one.text for one in log.signals() if isinstance(one, Signal)] == [GOOD.decode() + ",", OTHER.decode()]


def test_what_cannot_be_read_twice_or_at_all_has_no_head(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "a.xz").write_bytes(lzma.compress(GOOD))
    for place in (io.BytesIO(GOOD), str(tmp_path / "pipe"), str(tmp_path), str(tmp_path / "none"), "a\0b"):
        assert list(FinishedLog("a.log", place, needles=NEEDLES).head(3)) == []
    assert list(FinishedLog("a.log", str(tmp_path / "a.xz"), needles=NEEDLES).head(3)) == []


def test_the_head_of_a_file_that_is_cut_short_is_what_there_is(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(OTHER + b"\n" + GOOD)[:-9])
    log = FinishedLog("a.log", str(tmp_path / "a.gz"), needles=NEEDLES)
    assert [one.text for one in log.head(3)] == [OTHER.decode()]
