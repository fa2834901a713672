"""A piece of Python run in a process of its own, and the memory it took at most. What it does is the caller's."""

import subprocess
import sys

# Not ru_maxrss: that counts what the parent held when it forked.
_REPORT = """
print(next(int(line.split()[1]) // 1024 for line in open("/proc/self/status") if line.startswith("VmHWM:")))
"""


def run_measured(code: str, *arguments: str) -> tuple[list[str], int]:
    """Return the lines that `code` printed and its peak resident memory in MiB."""
    done = subprocess.run(
        [sys.executable, "-c", code + _REPORT, *arguments], check=True, capture_output=True, text=True, timeout=300
    )
    *lines, peak = done.stdout.splitlines()
    return lines, int(peak)
