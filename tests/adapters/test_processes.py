"""ProcessTable on trees like /proc, made of ordinary files, and on the real one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuward.adapters import processes
from gpuward.adapters.processes import LONGEST_CELL, ProcessTable, shown
from gpuward.model.node import Lineage
from gpuward.ports import Unreachable

BOOT = 1_700_000_000
TICKS = os.sysconf("SC_CLK_TCK")
V1 = "12:cpu,cpuacct:/kubepods/pod1\n1:name=systemd:/kubepods/pod1\n"


def add(root: Path, pid: int, *, comm: bytes = b"python3", state: str = "S", started: int = 60) -> Path:
    """Add a process that began so many seconds after the boot."""
    folder = root / str(pid)
    folder.mkdir(parents=True)
    (folder / "comm").write_bytes(comm + b"\n")
    (folder / "cmdline").write_bytes(b"python3\0train.py\0")
    (folder / "status").write_text("Name:\tpython3\nUid:\t1000\t0\t0\t0\n")
    (folder / "cgroup").write_text("0::/user.slice\n")
    rest = " ".join(["0"] * 15)
    fields = f"{pid} (".encode() + comm + f") {state} 1 7 4711 {rest} {started * TICKS} 0 0\n".encode()
    (folder / "stat").write_bytes(fields)
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "stat").write_text(f"cpu 1 2 3\nbtime {BOOT}\nprocesses 9\n")
    return tmp_path


def rows(root: Path) -> list[list[str]]:
    return [line.split("\t") for line in ProcessTable(str(root)).text().decode().splitlines()]


def test_each_process_is_a_line_in_order_of_pid_under_the_names_of_its_columns(root: Path) -> None:
    add(root, 900)
    (add(root, 30, comm=b"nv-hostengine") / "cgroup").write_text(V1)
    started = "2023-11-14T22:14:20Z"
    assert rows(root) == [
        ["pid", "ppid", "uid", "state", "started", "name", "cgroup", "command"],
        ["30", "1", "1000", "S", started, "nv-hostengine", V1.replace("\n", " ").strip(), "python3 train.py"],
        ["900", "1", "1000", "S", started, "python3", "0::/user.slice", "python3 train.py"],
    ]


def test_hostile_names_break_no_line_and_reach_no_terminal(root: Path) -> None:
    folder = add(root, 7, comm=b"a\nb\t\x1b[2J")
    (folder / "cmdline").write_bytes(b"x\0\xff\xfe\0\xe2\x80\xae\\n\r\n\0")
    (folder / "cgroup").write_bytes(b"0::/a\tb\x1b]0;title\x07\n")
    (row,) = rows(root)[1:]
    assert row[5:] == [r"a\nb\t\x1b[2J", r"0::/a\tb\x1b]0;title\x07", r"x \xff\xfe \u202e\\n\r\n"]


@given(st.binary(max_size=3000))
def test_anything_becomes_one_bounded_cell(raw: bytes) -> None:
    cell = shown(raw)
    assert cell.isprintable()
    assert len(cell) <= LONGEST_CELL


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_two_names_are_never_shown_alike(one: bytes, other: bytes) -> None:
    assert (shown(one) == shown(other)) == (one == other)


def test_nothing_is_read_of_the_memory_of_a_process_asleep_in_the_kernel(root: Path) -> None:
    folder = add(root, 7, state="D")
    (folder / "cmdline").unlink()
    os.mkfifo(folder / "cmdline")  # to read it would wait for ever
    assert rows(root)[1][3:8:4] == ["D", "-"]


def test_a_process_that_goes_is_left_out_and_what_may_not_be_read_is_a_dash(root: Path) -> None:
    (add(root, 7) / "stat").unlink()
    folder = add(root, 8)
    for name in ("cmdline", "status", "cgroup", "comm"):
        (folder / name).unlink()
    assert rows(root)[1:] == [["8", "1", "-", "S", "2023-11-14T22:14:20Z", "python3", "-", "-"]]


def test_without_the_time_of_the_boot_the_start_is_counted_from_it(root: Path) -> None:
    add(root, 7)
    (root / "stat").write_text("btime soon\n")
    assert rows(root)[1][4] == "+60.00s"


def test_too_many_processes_are_cut_and_it_is_said(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "MOST_BYTES", 8192)
    for pid in range(100, 300):
        (add(root, pid) / "cmdline").write_bytes(b"\xf0\x9f\x92\xa9" * 500)
    text = ProcessTable(str(root)).text()
    assert len(text) <= 8192
    *_, last = text.decode().splitlines()
    assert last == f"# cut here: {200 - (len(text.splitlines()) - 2)} more processes"


def test_a_tree_that_is_not_there_is_unreachable(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="mounted"):
        ProcessTable(str(tmp_path / "nothing")).text()


def test_a_lineage_tells_a_process_apart_and_none_is_gone(root: Path) -> None:
    (add(root, 7) / "cgroup").write_text(V1)
    table = ProcessTable(str(root))
    want = Lineage(session=4711, started="2023-11-14T22:14:20Z", cgroup=V1.replace("\n", " ").strip())
    assert table.lineage(7) == want
    assert table.lineage(8) is None


def test_the_real_processes_are_there() -> None:
    words = [sys.executable, "-c", "input()", "tab\there"]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as process:
        lines = {line.split("\t")[0]: line.split("\t") for line in ProcessTable().text().decode().splitlines()}
        lineage = ProcessTable().lineage(process.pid)
        process.kill()
    row = lines[str(process.pid)]
    assert (row[1], row[2]) == (str(os.getpid()), str(os.getuid()))
    assert row[7].endswith(r"tab\there")
    assert lineage == Lineage(session=os.getsid(0), started=row[4], cgroup=None if row[6] == "-" else row[6])
