"""Memory of `gpuward scan`, which stays below 100 MB whatever the input. Its speed is in the bench."""

import subprocess
import sys
from pathlib import Path

from tests.kit.measured import run_measured

LOST = "NVRM: Xid (PCI:0000:3b:00): 79, pid=4321, name=train, GPU has fallen off the bus."
MOST_MIB = 95
"""100 MB."""
RUN = "import sys; from gpuward.cli.main import run; print(run(sys.argv[1:]))"


def peak_of_scan(*words: str) -> tuple[list[str], int]:
    return run_measured(RUN, "scan", "--json", *words)


def test_two_gigabytes_without_a_line_end_through_a_pipe(tmp_path: Path) -> None:
    script = f"(head -c 2G /dev/zero | tr '\\0' x; echo; echo '{LOST}') | \"$0\" -c \"$1\" scan --json -"
    measure = 'print(next(int(l.split()[1]) // 1024 for l in open("/proc/self/status") if l.startswith("VmHWM:")))'
    done = subprocess.run(
        ["/bin/bash", "-c", script, sys.executable, f"{RUN}; {measure}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=tmp_path,
    )
    fault, code, peak = done.stdout.splitlines()
    assert '"code":79' in fault
    assert code == "1"
    assert "line 1 is longer than 64 KiB and was passed over" in done.stderr
    assert int(peak) <= MOST_MIB


def test_a_hole_of_half_a_gigabyte_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "hole.log"
    with path.open("wb") as log:
        log.truncate(500_000_000)
        log.seek(0, 2)
        log.write(f"\n{LOST}\n".encode())
    (fault, code), peak = peak_of_scan(str(path))
    assert '"code":79' in fault
    assert code == "1"
    assert peak <= MOST_MIB


def test_a_line_of_100_megabytes_between_good_ones(tmp_path: Path) -> None:
    path = tmp_path / "long.log"
    with path.open("wb") as log:
        log.write(f"{LOST}\n".encode())
        log.writelines(b"x" * 1_000_000 for _ in range(100))
        log.write(f"\n{LOST.replace('79', '48')}\n".encode())
    (*faults, _), peak = peak_of_scan(str(path))
    assert len(faults) == 2
    assert peak <= MOST_MIB


def test_thousands_of_faults_of_one_gpu_in_one_table(tmp_path: Path) -> None:
    path = tmp_path / "flood.log"
    path.write_text("".join(f"[{at * 200}.0] NVRM: Xid (PCI:0000:3b:00): {200 + at}, x\n" for at in range(5000)))
    out, peak = run_measured(RUN, "scan", str(path))
    assert sum(line.startswith("GPU 0000:3b:00") for line in out) == 5
    assert peak <= MOST_MIB
