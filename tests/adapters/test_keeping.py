"""Journal, evidence and lock on real files: what is written stands whole, and trouble is a sentence."""

import hashlib
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpuward.adapters.chronicle import JsonLines
from gpuward.adapters.evidence import LIST, EvidenceFolder
from gpuward.adapters.lock import FolderLock
from gpuward.model.happening import Happening, What
from gpuward.ports import Refused


def moved(number: int) -> Happening:
    return Happening(
        at=1.5 + number, what=What.MOVED, node="gpu-1", case=f"c{number}", before="suspect", after="fenced", because="é"
    )


def test_a_happening_is_one_line_without_its_empty_fields(tmp_path: Path) -> None:
    JsonLines(str(tmp_path / "state" / "journal.jsonl")).write(moved(0))
    (line,) = (tmp_path / "state" / "journal.jsonl").read_text("utf-8").splitlines()
    assert json.loads(line) == {
        "at": 1.5,
        "what": "moved",
        "node": "gpu-1",
        "case": "c0",
        "from": "suspect",
        "to": "fenced",
        "because": "é",
    }


def test_the_journal_is_rotated_and_bounded(tmp_path: Path) -> None:
    journal = JsonLines(str(tmp_path / "journal.jsonl"), file_bytes=1000, files=3)
    for number in range(100):
        journal.write(moved(number))
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == ["journal.jsonl", "journal.jsonl.1", "journal.jsonl.2"]
    assert all(file.stat().st_size <= 1000 for file in tmp_path.iterdir())
    oldest_first = [line for name in reversed(names) for line in (tmp_path / name).read_text("utf-8").splitlines()]
    numbers = [int(json.loads(line)["case"][1:]) for line in oldest_first]
    assert numbers == list(range(numbers[0], 100))


def test_a_full_disk_is_said_and_leaves_no_half_line(tmp_path: Path) -> None:
    journal = JsonLines("/dev/full")
    with pytest.raises(Refused, match="make room"):
        journal.write(moved(0))
    (tmp_path / "file").write_text("x")
    with pytest.raises(Refused, match="make room"):
        JsonLines(str(tmp_path / "file" / "journal")).write(moved(0))


def test_evidence_is_kept_with_its_hash(tmp_path: Path) -> None:
    room = EvidenceFolder(str(tmp_path / "evidence"))
    digest = room.keep("c/../1", "nvidia-smi -q.txt", b"GPU is lost")
    assert digest == hashlib.sha256(b"GPU is lost").hexdigest()
    folder = tmp_path / "evidence" / "c_.._1"
    assert (folder / "nvidia-smi_-q.txt").read_bytes() == b"GPU is lost"
    assert subprocess.run(["sha256sum", "--check", "--quiet", LIST], cwd=folder, check=False).returncode == 0
    assert folder.stat().st_mode & 0o077 == 0


def test_evidence_that_is_kept_again_is_listed_once_by_its_newest_hash(tmp_path: Path) -> None:
    room = EvidenceFolder(str(tmp_path))
    for name, content in (("q.txt", b"old"), ("kernel.log", b"log"), ("q.txt", b"new"), ("q.txt", b"new")):
        room.keep("c1", name, content)
    listed = (tmp_path / "c1" / LIST).read_text().splitlines()
    assert [line.split()[1] for line in listed] == ["kernel.log", "q.txt"]
    assert subprocess.run(["sha256sum", "--check", "--quiet", LIST], cwd=tmp_path / "c1", check=False).returncode == 0


def test_a_list_that_an_earlier_version_left_torn_is_mended(tmp_path: Path) -> None:
    room = EvidenceFolder(str(tmp_path))
    room.keep("c1", "a", b"a")
    listed = tmp_path / "c1" / LIST
    listed.write_text(f"{listed.read_text()}{listed.read_text()}0123abc")
    room.keep("c1", "a", b"a")
    room.keep("c1", "b", b"b")
    assert [line.split()[1] for line in listed.read_text().splitlines()] == ["a", "b"]
    assert subprocess.run(["sha256sum", "--check", "--quiet", LIST], cwd=tmp_path / "c1", check=False).returncode == 0


def test_whenever_the_agent_is_killed_while_it_keeps_evidence_the_list_is_whole(tmp_path: Path) -> None:
    code = (
        "import itertools, sys\nfrom gpuward.adapters.evidence import EvidenceFolder\n"
        "room = EvidenceFolder(sys.argv[1])\nprint('begun', flush=True)\n"
        "for number in itertools.count(): room.keep('c1', f'{number % 40}.txt', str(number).encode())"
    )
    for _ in range(5):
        with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) as agent:
            assert agent.stdout is not None
            agent.stdout.readline()
            time.sleep(0.1)
            agent.kill()
        lines = (tmp_path / "c1" / LIST).read_text().splitlines(keepends=True)
        assert lines
        assert all(re.fullmatch(r"[0-9a-f]{64}  [0-9]+\.txt\n", line) for line in lines)
        assert len({line.split()[1] for line in lines}) == len(lines)


@pytest.mark.parametrize("name", ["..", ".", "../../x", ".hidden"])
def test_no_name_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    EvidenceFolder(str(tmp_path / "evidence")).keep(name, name, b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["evidence"]
    (case,) = (tmp_path / "evidence").iterdir()
    assert len([*case.iterdir()]) == 2


def test_evidence_that_cannot_be_kept_is_refused(tmp_path: Path) -> None:
    (tmp_path / "evidence").write_text("a file is in the way")
    with pytest.raises(Refused, match="make room"):
        EvidenceFolder(str(tmp_path / "evidence")).keep("c1", "q", b"x")


def test_the_second_agent_on_a_folder_is_refused_by_name(tmp_path: Path) -> None:
    first = FolderLock(str(tmp_path / "state"))
    first.take()
    with pytest.raises(Refused, match=rf"pid {os.getpid()}.*--state-dir"):
        FolderLock(str(tmp_path / "state")).take()
    first.give_back()
    second = FolderLock(str(tmp_path / "state"))
    second.take()
    second.give_back()


def test_a_killed_agent_leaves_no_lock(tmp_path: Path) -> None:
    code = (
        "import os,signal,sys\nfrom gpuward.adapters.lock import FolderLock\n"
        "FolderLock(sys.argv[1]).take()\nos.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    lock = FolderLock(str(tmp_path))
    lock.take()
    lock.give_back()
