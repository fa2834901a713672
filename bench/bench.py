"""Speed and memory of gpuward, as ratios in one run. Nothing here is a test: numbers depend on the machine.

With --write the results go to docs/benchmarks.md.
"""

import argparse
import os
import platform
import random
import re
import resource
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent_rows import agent_rows
from figures import quantiles
from ring import DEVICE, kmsg_writer, why_no_kmsg

LINES = 2_000_000
ROUNDS = 5
KMSG_LINES = 300
SIM_SEEDS = 3
SIM_NODES = 16
SIM_DAYS = 4
PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"
_OTHERS = (
    "[{at:12.6f}] systemd[1]: Started Session {n} of User root.",
    '[{at:12.6f}] audit: type=1400 audit(1790000.123:{n}): apparmor="STATUS" operation="profile_load"',
    "[{at:12.6f}] docker0: port {n}(veth12ab34c) entered blocking state",
    "[{at:12.6f}] EXT4-fs (nvme0n1p{n}): mounted filesystem with ordered data mode. Quota mode: none.",
)
_XIDS = (
    "13, pid={pid}, name=python3, Graphics SM Warp Exception on (GPC {a}, TPC {b}, SM 0): Out Of Range Address",
    "31, pid={pid}, name=python3, Ch {n:08x}, intr 00000000. MMU Fault: ENGINE GRAPHICS faulted @ 0x7f_{n:08x}.",
    "43, pid={pid}, name=python3, Ch {n:08x}",
    "45, pid={pid}, name=python3, Ch {n:08x}",
    "94, pid={pid}, name=python3, Contained: CE User Channel (0x{a:x}). RST: No, D-RST: No",
)


@dataclass(frozen=True, slots=True)
class Cost:
    """What a child process took: CPU seconds and the most memory it held, in MiB."""

    cpu_seconds: float
    memory_mib: float


def main() -> int:
    """Run every measurement and print a table; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md too")
    parser.add_argument("--lines", type=int, default=LINES, help=f"lines of the generated log (default: {LINES})")
    asked = parser.parse_args()
    rows = [*scan_rows(asked.lines), *kmsg_rows(), *agent_rows(), *_cluster_rows(), *sim_rows()]
    table = ["| what | measured | target |", "|---|---|---|", *(f"| {' | '.join(row)} |" for row in rows)]
    sys.stdout.write("\n".join(table) + "\n")
    if asked.write:
        PAGE.write_text("\n".join([*_heading(), *table, ""]), encoding="utf-8")
    return 0


def _cluster_rows() -> Iterator[tuple[str, str, str]]:
    """Measure on a control plane. What that loads is not loaded before: a child starts with its parent's memory."""
    from cluster_rows import cluster_rows  # noqa: PLC0415  as it says

    return cluster_rows()


def scan_rows(lines: int) -> Iterator[tuple[str, str, str]]:
    """Scan a generated log and grep the same file, in turns; yield the rows of the table."""
    with tempfile.TemporaryDirectory(prefix="gpuward-bench-") as folder:
        log = Path(folder) / "kern.log"
        write_log(log, lines)
        small = Path(folder) / "small.log"
        write_log(small, lines // 20)
        grep: list[Cost] = []
        scan: list[Cost] = []
        for _ in range(ROUNDS):
            grep.append(cost_of(["grep", "-c", "NVRM: Xid", str(log)], LC_ALL="C"))
            scan.append(cost_of([sys.executable, "-m", "gpuward", "scan", "--json", str(log)]))
        little = cost_of([sys.executable, "-m", "gpuward", "scan", "--json", str(small)])
        ratio = statistics.median(one.cpu_seconds / other.cpu_seconds for one, other in zip(scan, grep, strict=True))
        cpu_seconds = statistics.median(cost.cpu_seconds for cost in scan)
        size = log.stat().st_size >> 20
        yield (
            f"scan --json of {lines:,} lines ({size} MiB, 1 % Xid), lines per CPU-second, whole process",
            f"{lines / cpu_seconds:,.0f}",
            ">= 1,500,000",
        )
        yield "the same, CPU of scan / CPU of `LC_ALL=C grep -c 'NVRM: Xid'`", f"{ratio:.1f}", "<= 15"
        most = max(cost.memory_mib for cost in scan)
        yield (
            "memory of that scan, and of one a twentieth as long (MiB)",
            f"{most:.0f}, {little.memory_mib:.0f}",
            "<= 60",
        )


def write_log(path: Path, lines: int) -> None:
    """Write a log of invented lines, every hundredth an Xid; the same lines each time."""
    chance = random.Random(7)  # noqa: S311  the same log each time
    addresses = ("3b:00", "5e:00", "86:00", "af:00")
    with path.open("w", encoding="ascii") as log:
        for n in range(lines):
            at = n * 0.01
            if n % 100:
                log.write(_OTHERS[n % len(_OTHERS)].format(at=at, n=n) + "\n")
                continue
            text = chance.choice(_XIDS).format(
                pid=chance.randrange(1000, 99999), a=chance.randrange(8), b=chance.randrange(9), n=n
            )
            log.write(f"[{at:12.6f}] NVRM: Xid (PCI:0000:{chance.choice(addresses)}): {text}\n")


def cost_of(words: Sequence[str], **environment: str) -> Cost:
    """Run a program to its end and return what it took. A scan that finds something ends with 1."""
    with subprocess.Popen(  # noqa: S603  our own command and grep
        words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, **environment}
    ) as child:
        if child.stdout is not None:
            child.stdout.read()  # a pipe, not /dev/null: grep ends at its first match when nobody reads the count
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(words)} ended with {child.returncode}")
    return Cost(cpu_seconds=used.ru_utime + used.ru_stime, memory_mib=used.ru_maxrss / 1024)


def sim_rows() -> Iterator[tuple[str, str, str]]:
    """Run pretend fleets from a few seeds, all of the product's own loops in them; yield the row of the table."""
    days = [cost_of([sys.executable, "-m", "gpuward", *_simulated(seed)]).cpu_seconds for seed in range(SIM_SEEDS)]
    none = cost_of([sys.executable, "-m", "gpuward", *_simulated(0, nodes=1, days=1)]).cpu_seconds
    speed = SIM_NODES * SIM_DAYS / (statistics.median(days) - none)
    yield (
        f"gpuward sim run, {SIM_NODES} nodes x 8 GPUs x {SIM_DAYS} days, {SIM_SEEDS} seeds (node-days a CPU second)",
        f"{speed:.0f}",
        "-",
    )


def _simulated(seed: int, *, nodes: int = SIM_NODES, days: int = SIM_DAYS) -> tuple[str, ...]:
    return ("sim", "run", "--seed", str(seed), "--nodes", str(nodes), "--gpus", "8", "--days", str(days))


def kmsg_rows() -> Iterator[tuple[str, str, str]]:
    """Write Xid lines to the real kernel log and time their verdicts; nothing where that is not allowed or not safe."""
    why_not = why_no_kmsg()
    if why_not:
        sys.stderr.write(f"kernel line -> verdict is not measured: {why_not}\n")
        return
    delays = list(_kmsg_delays())
    p50, p99 = (seconds * 1000 for seconds in quantiles(delays))
    yield (
        f"line in the real /dev/kmsg -> verdict of watch, {len(delays)} lines (ms)",
        f"p50 {p50:.1f}, p99 {p99:.1f}",
        "-",
    )


def _kmsg_delays() -> Iterator[float]:
    words = [sys.executable, "-m", "gpuward", "watch", "--kernel-log", DEVICE, "--accept-user-records", "--json"]
    with (
        kmsg_writer() as write,
        subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as watch,  # noqa: S603  our own
    ):
        yield from _timed(watch, write)
        watch.terminate()


def _timed(watch: "subprocess.Popen[bytes]", write: Callable[[str], None]) -> Iterator[float]:
    if watch.stdout is None:
        return
    out = watch.stdout.fileno()
    chance = random.Random(os.getpid())  # noqa: S311  a token, not a secret
    domain = chance.randrange(0x1000, 0xFFFF)
    for n in range(KMSG_LINES + 1):
        pci = f"{domain:04x}:{n // 32:02x}:{n % 32:02x}"
        began = time.monotonic()
        write(f"NVRM: Xid (PCI:{pci}): 79, GPU has fallen off the bus.")
        found = _wait_for(out, pci.encode(), began + 10)
        if found is None:
            raise SystemExit("the watch did not tell a line within 10 s")
        if n:  # The first line also waits for the watch to start.
            yield found - began


def _wait_for(out: int, word: bytes, deadline: float) -> float | None:
    seen = b""
    while time.monotonic() < deadline:
        if select.select([out], [], [], 0.5)[0]:
            seen += os.read(out, 1 << 16)
            if re.search(re.escape(word), seen):
                return time.monotonic()
    return None


def _heading() -> list[str]:
    return [
        "# Numbers",
        "",
        "Written by `.venv/bin/python bench/bench.py --write`; `make bench` prints. Numbers depend on the machine;",
        "the ratios were taken in one run, the two programs in turns, the median of five. An agent works on pretend",
        "servers, whose nvidia-smi is a Python program; evidence is from its call of `nvidia-smi -q` to the next call.",
        "A node on the API server is as large as a real GPU server's: 4 conditions, 50 images, some 45 labels.",
        "",
        f"Python {platform.python_version()}, {os.cpu_count()} cores, Linux {platform.release().split('-')[0]}.",
        "",
    ]


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))  # an agent that is left alone would go on
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.exit(main())
