"""That FinishedLog needs little memory whatever a file holds, measured in a process of its own."""

import gzip
from pathlib import Path

from tests.kit.measured import run_measured

GOOD = b"[    7.000000] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."
READ = """
import sys
from gpuward.adapters.logfile import FinishedLog
log = FinishedLog("a.log", sys.argv[1], needles=(b"NVRM", b"SXid"))
print(sum(type(one).__name__ == "Signal" for one in log.signals()))
print(log.tally().skipped)
"""


def test_a_line_of_100_mib_between_good_ones_takes_little_memory(tmp_path: Path) -> None:
    file = tmp_path / "long.log"
    with file.open("wb") as out:
        out.write(GOOD + b"\n")
        for _ in range(100):
            out.write(b"w" * 1024 * 1024)
        out.write(b"\n" + GOOD + b"\n")
    said, peak = run_measured(READ, str(file))
    assert said == ["2", "1"]
    assert peak <= 60


def test_2_gib_without_a_newline_take_little_memory(tmp_path: Path) -> None:
    file = tmp_path / "hole.log"
    with file.open("wb") as out:
        out.write(GOOD + b"\n\x01")
        out.truncate(2 * 1024 * 1024 * 1024)
    said, peak = run_measured(READ, str(file))
    assert said == ["1", "1"]
    assert peak <= 60


def test_a_gzip_bomb_takes_little_memory(tmp_path: Path) -> None:
    file = tmp_path / "bomb.gz"
    with gzip.open(file, "wb", compresslevel=1) as out:
        out.write(GOOD + b"\n")
        for _ in range(300):
            out.write(b"q" * 1024 * 1024)
    said, peak = run_measured(READ, str(file))
    assert said == ["1", "1"]
    assert peak <= 60


def test_a_log_where_every_line_matters_takes_little_memory(tmp_path: Path) -> None:
    file = tmp_path / "dense.log"
    file.write_bytes(b"NVRM\n" * 400_000)
    said, peak = run_measured(READ, str(file))
    assert said == ["400000", "0"]
    assert peak <= 60
