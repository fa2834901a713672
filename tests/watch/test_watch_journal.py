"""A real journal file, watched live and saved as JSON for a scan. What the reader of the journal promises is not here.

There is no running journald: a `journalctl` in front of the real one names the file, since the command has no option
for one.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.journal import Entry, make_journal, need_journal
from tests.kit.watching import LOST, TORN, watching, xid_text

pytestmark = pytest.mark.real


def journal(folder: Path) -> Path:
    need_journal()
    return make_journal(
        folder / "a.journal",
        [
            Entry("usb 1-1: new device", seconds=1),
            Entry(LOST, seconds=2),
            Entry(TORN, seconds=3),
            Entry(b"NVRM: Xid (PCI:0000:3b:00): 31, pid=7, name=caf\xe9, MMU Fault", seconds=4),
            Entry(xid_text(62, "written by a user", pci="0000:0a:00"), seconds=5, facility=1),
        ],
    )


def test_a_saved_journal_piped_to_scan_gives_its_faults(tmp_path: Path) -> None:
    saved = subprocess.run(
        ["journalctl", f"--file={journal(tmp_path)}", "--output=json", "--all", "--no-pager"],
        check=True,
        capture_output=True,
        timeout=60,
    )
    scan = subprocess.run(
        [sys.executable, "-m", "gpuward", "scan", "--json", "--all", "-"],
        input=saved.stdout,
        check=False,
        capture_output=True,
        timeout=60,
    )
    assert scan.returncode == 1
    faults = [json.loads(line) for line in scan.stdout.splitlines()]
    assert [(fault["code"], fault["level"], fault["node"]) for fault in faults] == [
        (79, "P0", "gpu-node-a"),
        (45, "ignore", "gpu-node-a"),
        (31, "P1", "gpu-node-a"),
        (62, "P2", "gpu-node-a"),
    ]
    assert faults[2]["process"].startswith("caf")
    assert faults[0]["time"] == "2025-10-09T08:53:22.000000Z"


def test_a_watch_of_the_journal_follows_it_and_a_restart_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = journal(tmp_path)
    real = shutil.which("journalctl")
    front = tmp_path / "bin" / "journalctl"
    front.parent.mkdir()
    # The present boot of a file is not this machine's: all boots stand in for it.
    front.write_text(
        "#!/bin/sh\n"
        'for word; do shift; [ "$word" = -k ] && word=_TRANSPORT=kernel; set -- "$@" "$word"; done\n'
        f'exec {real} --file={file} "$@"\n'
    )
    front.chmod(0o755)
    monkeypatch.setenv("PATH", str(front.parent), prepend=":")
    words = ("--kernel-log", "journal", "--json", "--state-dir", tmp_path / "state")
    with watching(*words) as first:
        first.wait_for(lambda line: '"code":62' in line)
        assert first.stop() == 0
    lost, torn, bad, user = first.objects()
    assert [one["code"] for one in (lost, torn, bad, user)] == [79, 45, 31, 62]
    assert torn["explained_by"] == lost["id"]
    assert (user["level"], user["history"]) == ("P2", True)
    assert len(lost["id"]) < 50
    make_journal(file, [Entry(xid_text(31, "later", pci="0000:0a:00"), seconds=6)])
    with watching(*words) as second:
        second.wait_for(lambda line: "later" in line)
        assert second.stop() == 0
    assert [one["code"] for one in second.objects()] == [31]
    assert len(second.complaints) == 1
