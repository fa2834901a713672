"""What an agent costs as a real process on a pretend GPU server: line to drain, memory, idle CPU. Nothing is asserted.

The pretend nvidia-smi tells of each call as it begins and ends, so that its own time can be told from the agent's.
"""

import os
import random
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from figures import at_most, quantiles, said
from ring import DEVICE, kmsg_writer, why_no_kmsg

from gpuward.adapters.clock import SystemClock
from gpuward.adapters.kmsg import Kmsg
from gpuward.adapters.store import JsonFile
from gpuward.cli import wiring
from gpuward.isolation.kernel.reader import Context, KernelReader
from gpuward.isolation.merge import Merger
from gpuward.model.signal import Signal
from gpuward.sim.machines import machine as machines
from gpuward.sim.machines.machine import Machine

Row = tuple[str, str, str]

SERVERS = 8
FAULTS = 4
"""On each server of eight GPUs: the brake lets half of them be taken out."""
IDLE_SECONDS = 30.0
"""One time between two readings of the GPUs, so that exactly one falls into it."""
DRAIN_MS = 150
AGENT_MB = 40
WHOLE_MB = 60
IDLE_MS = 1
_CODE = 48
_SLOWEST_SECONDS = 30.0
_QUIET_SECONDS = 0.4
_STEP_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Call:
    """What the pretend nvidia-smi told: a call with these words began or ended at that moment."""

    at: float
    begins: bool
    words: str


@dataclass(frozen=True, slots=True)
class Delay:
    """One fault: from its line to the drain call, and how long of it was deciding, evidence, or other calls."""

    whole: float
    decided: float
    evidence: float
    tool: float

    @property
    def beside(self) -> float:
        """Return what it took beside the evidence."""
        return self.whole - self.evidence


@dataclass(frozen=True, slots=True)
class Ward:
    """A pretend server, where its agent keeps its state, the log it follows, and the pipe that tells of calls."""

    machine: Machine
    state: Path
    log: str
    calls: int

    @contextmanager
    def agent(self) -> Iterator["subprocess.Popen[str]"]:
        """Run an agent in mode isolate, all else as it is by default; it watches when the body begins."""
        words = (
            *(sys.executable, "-m", "gpuward", "agent", "--standalone", "--mode", "isolate", "--accept-user-records"),
            *("--kernel-log", self.log, "--state-dir", str(self.state), "--node", machines.HOST),
            *("--proc-root", str(self.machine.proc), "--dev-root", str(self.machine.dev), "--timezone", "UTC"),
        )
        with subprocess.Popen(  # noqa: S603  our own command
            words, env=self.machine.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                while process.stderr is not None and (line := process.stderr.readline()):
                    if " in mode " in line:
                        break
                else:
                    raise SystemExit("the agent ended at once")
                yield process
            finally:
                process.kill()


def agent_rows() -> Iterator[Row]:
    """Measure agents on pretend servers; yield the rows of the table."""
    why_not = why_no_kmsg()
    if why_not:
        sys.stderr.write(f"line -> drain is measured with a file: {why_not}\n")
        yield from _delay_rows(list(_delays(None)), "a followed file")
    else:
        with kmsg_writer() as write:
            delays = list(_delays(write))
        yield from _delay_rows(delays, "the real /dev/kmsg")
    yield from _idle_rows(real=why_not is None)


# --- line to drain ----------------------------------------------------------------------------------------------------


def _delay_rows(delays: Sequence[Delay], log: str) -> Iterator[Row]:
    beside = quantiles([one.beside for one in delays])
    tool = quantiles([one.tool for one in delays])
    decided = quantiles([one.decided for one in delays])
    own = quantiles([one.beside - one.tool for one in delays])
    yield (
        f"line in {log} -> `drain -m 1` of an agent, {len(delays)} faults on {SERVERS} pretend servers (ms)",
        said(quantiles([one.whole for one in delays])),
        "-",
    )
    yield "of which evidence (ms)", said(quantiles([one.evidence for one in delays])), "-"
    yield "the same beside the evidence (ms)", said(beside), at_most(beside[1] * 1000, DRAIN_MS, "p99 ")
    yield (
        "of which line -> first call of nvidia-smi: judged, decided, saved, holders looked for (ms)",
        said(decided),
        "-",
    )
    yield "of which other calls of the pretend nvidia-smi, a Python program (ms)", said(tool), "-"
    yield "all but those calls, the agent's own (ms)", said(own), "-"
    yield "the agent's own / those calls", f"{own[0] / tool[0]:.2f}", "-"


def _delays(write: Callable[[str], None] | None) -> Iterator[Delay]:
    chance = random.Random(7)  # noqa: S311  when a fault comes must only not be in step with the agent
    for _ in range(SERVERS):
        with _ward(real=write is not None) as ward, ward.agent() as agent:
            _settle(ward)
            for gpu in range(FAULTS):
                time.sleep(chance.uniform(0.0, 1.0))
                yield _delay(ward, gpu, write)
            if agent.poll() is not None:
                raise SystemExit("the agent ended in between")


def _delay(ward: Ward, gpu: int, write: Callable[[str], None] | None) -> Delay:
    """Let one GPU fall ill and wait until the agent drains it and is done."""
    lines = ward.machine.inject(gpu, _CODE)
    address = f"{ward.machine.state().gpus[gpu].pci.upper()}.0"
    began = time.monotonic()
    if write is None:
        _append(Path(ward.log), lines)
    else:
        for line in lines:
            write(line)
    calls = _calls(ward.calls, _SLOWEST_SECONDS, until=f"drain -p {address} -m 1")
    drain = calls[-1]
    asked = next(one for one in calls if one.begins and one.words == f"-q -i {address}")
    acting = next(one for one in calls if one.begins and one.at > asked.at)
    _calls(ward.calls, _SLOWEST_SECONDS, until=None)
    after = [one for one in calls if one.at >= acting.at][:-1]
    tool = sum(one.at * (-1 if one.begins else 1) for one in after)
    return Delay(whole=drain.at - began, decided=asked.at - began, evidence=acting.at - asked.at, tool=tool)


def _calls(pipe: int, most_seconds: float, *, until: str | None) -> list[Call]:
    """Return what is told of calls up to one's beginning; with None, until nothing was told for a while."""
    calls: list[Call] = []
    rest = ""
    end = time.monotonic() + most_seconds
    while time.monotonic() < end:
        ready = select.select([pipe], [], [], _QUIET_SECONDS)[0]
        at = time.monotonic()
        if not ready:
            if until is None:
                return calls
            continue
        *lines, rest = (rest + os.read(pipe, _STEP_BYTES).decode()).split("\n")
        for line in lines:
            calls.append(Call(at=at, begins=line.startswith("+"), words=line[2:]))
            if calls[-1].begins and calls[-1].words == until:
                return calls
    raise SystemExit(f"nvidia-smi was not called with {until}" if until else "nvidia-smi is called without end")


def _settle(ward: Ward) -> None:
    """Wait until the agent has begun for good: a portrait of each GPU is taken, which is due again in an hour only."""
    portraits = ward.state / "portraits.json"
    end = time.monotonic() + _SLOWEST_SECONDS
    gpus = [gpu.pci for gpu in ward.machine.state().gpus]
    while time.monotonic() < end:
        text = portraits.read_text("utf-8") if portraits.exists() else ""
        if all(pci in text for pci in gpus):
            break
        time.sleep(_QUIET_SECONDS)
    else:
        raise SystemExit("the agent took no portraits of its GPUs")
    _calls(ward.calls, _SLOWEST_SECONDS, until=None)


def _append(log: Path, lines: Sequence[str]) -> None:
    stamp = datetime.fromtimestamp(SystemClock().now(), UTC).isoformat(timespec="microseconds")
    with log.open("a", encoding="utf-8") as file:
        file.write("".join(f"{stamp} {machines.HOST} kernel: {line}\n" for line in lines))


# --- memory, idle CPU -------------------------------------------------------------------------------------------------


def _idle_rows(*, real: bool) -> Iterator[Row]:
    with _ward(real=real) as ward, ward.agent() as agent:
        _settle(ward)
        time.sleep(2.0)
        children = _children(agent.pid)
        every = (agent.pid, *children)
        newest = _newest() if real else 0
        before = [_cpu_seconds(pid) for pid in every]
        time.sleep(IDLE_SECONDS)
        used = [(_cpu_seconds(pid) - was) * 1000 / IDLE_SECONDS for pid, was in zip(every, before, strict=True)]
        memory = [_memory_mb(pid) for pid in every]
        came = _newest() - newest if real else 0
    bare = _bare_python_mb()
    yield "memory of an idle agent, its main process alone (MB)", f"{memory[0]:.1f}", at_most(memory[0], AGENT_MB)
    yield "the same / a Python that only sleeps", f"{memory[0] / bare:.1f}", "-"
    with_child = "with its NVML child" if children else "without an NVML child, as there is no C compiler for the stub"
    yield f"the same {with_child} (MB)", f"{sum(memory):.1f}", at_most(sum(memory), WHOLE_MB)
    log = f"{DEVICE} ({came} lines came)" if real else "a followed file"
    yield (
        f"CPU of that idle agent at {log}, {IDLE_SECONDS:.0f} s with one reading (ms/s)",
        f"{used[0]:.2f}",
        at_most(used[0], IDLE_MS),
    )
    yield f"the same {with_child} (ms/s)", f"{sum(used):.2f}", "-"


def _children(pid: int) -> tuple[int, ...]:
    told = (file.read_text(encoding="ascii") for file in Path(f"/proc/{pid}/task").glob("*/children"))
    return tuple(int(word) for words in told for word in words.split())


def _memory_mb(pid: int) -> float:
    """Return the resident memory; pages that two processes share count for each."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024 / 1e6


def _cpu_seconds(pid: int) -> float:
    """Return what all threads of a process took, to the nanosecond: the clock that clock_getcpuclockid(3) names."""
    return time.clock_gettime((~pid << 3) | 2)


def _bare_python_mb() -> float:
    words = (sys.executable, "-c", "import time; print(flush=True); time.sleep(60)")
    with subprocess.Popen(words, stdout=subprocess.PIPE) as bare:  # noqa: S603  our own words
        if bare.stdout is not None:
            bare.stdout.readline()
        memory = _memory_mb(bare.pid)
        bare.kill()
    return memory


# --- the pretend server -----------------------------------------------------------------------------------------------


@contextmanager
def _ward(*, real: bool) -> Iterator[Ward]:
    """Lay out a server of eight GPUs that follows the real kernel log, from its end on, or a file of its own."""
    with tempfile.TemporaryDirectory(prefix="gpuward-bench-") as folder:
        machine = machines.build(Path(folder) / "machine")
        if shutil.which("cc"):
            machine.nvml()
        _move(machine, random.Random().randrange(0x1000, 0xFFFF))  # noqa: S311  only unlike that of earlier lines
        pipe = Path(folder) / "calls"
        os.mkfifo(pipe)
        _tell_calls(machine, pipe)
        log = Path(folder) / "kernel.log"
        log.touch()
        state = Path(folder) / "state"
        if real:
            _begin_at_the_end(state)
        calls = os.open(pipe, os.O_RDWR | os.O_CLOEXEC)  # for writing too: then it never ends
        try:
            yield Ward(machine, state, DEVICE if real else str(log), calls)
        finally:
            os.close(calls)


def _move(machine: Machine, domain: int) -> None:
    """Put the GPUs into a PCI domain of their own: the ring holds lines of others."""
    gpus = machine.state().gpus
    moved = tuple(replace(gpu, pci=f"{domain:04x}{gpu.pci[4:]}") for gpu in gpus)
    machine.change(gpus=moved)
    told = machine.proc / "driver" / "nvidia" / "gpus"
    for old, new in zip(gpus, moved, strict=True):
        folder = (told / f"{old.pci}.0").rename(told / f"{new.pci}.0")
        text = (folder / "information").read_text(encoding="utf-8")
        (folder / "information").write_text(text.replace(old.pci, new.pci), encoding="utf-8")


def _tell_calls(machine: Machine, pipe: Path) -> None:
    """Put a script before the stub that writes into the pipe when a call begins (+) and ends (-)."""
    stub = machine.smi.rename(machine.smi.with_name("stub"))
    machine.smi.write_text(
        f'#!/bin/sh\necho "+ $*" > {pipe}\n{stub} "$@"\ncode=$?\necho "- $*" > {pipe}\nexit $code\n', encoding="utf-8"
    )
    machine.smi.chmod(0o755)


def _begin_at_the_end(state: Path) -> None:
    """Save a place as an agent does that has read all lines so far and found nothing: they are none of this server."""
    origin = Kmsg().origin()
    context = Context(
        source=origin.source,
        timezone=UTC,
        now=SystemClock().now(),
        boot_time=origin.boot_time,
        boot=origin.boot,
        node=origin.node,
        gpus=frozenset(),
    )
    _, terms = wiring.judgement(None, None)
    place = {"cursor": f"k{_newest()}", "boot": origin.boot, "rested_at": SystemClock().now()}
    kept = {"reader": KernelReader(context).pack(), "merger": Merger(terms).pack()}
    JsonFile(str(state / "watch.json")).save({**place, **kept})


def _newest() -> int:
    """Return the number of the newest record in the real kernel log."""
    log = Kmsg()
    newest = 0
    while came := log.read(0.0):
        newest = max([newest, *(one.line for one in came if isinstance(one, Signal))])
    log.close()
    return newest
