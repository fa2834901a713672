"""`make demo-server`: a pretend server falls ill while the real agent works on it. This machine is not touched."""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpuward.ports import Refused
from gpuward.sim.curtain import beside
from gpuward.sim.machines import machine as machines
from gpuward.sim.machines.hold import Hold
from gpuward.sim.machines.machine import Machine

if TYPE_CHECKING:
    import subprocess

HOST = "gpu-pretend-1"
_PROBATION_SECONDS = "3"
_SETTINGS = """\
[rules."R45-consequence"]
after_seconds = 5

[rules."R45-switch"]
after_seconds = 5
"""
_SLOWEST_SECONDS = 90.0


@dataclass(frozen=True, slots=True)
class Stage:
    """A pretend server with the agent at work on it."""

    machine: Machine
    state: Path
    settings: Path
    environment: dict[str, str]
    agent: "subprocess.Popen[bytes] | None" = None

    def gpuward(self, *words: str, quiet: bool = False) -> int:
        """Run one of the commands that talk to the agent; return its exit code. `quiet`: the agent tells the same."""
        _say(f"\n$ gpuward {' '.join(words)}")
        with beside([*_GPUWARD, *words, "--state-dir", str(self.state)], env=self.environment, quiet=quiet) as asked:
            return asked.wait()

    def wait_for(self, what: str, seen: Callable[[], bool]) -> bool:
        """Wait until something is seen in the journal; say so when it never is."""
        end = time.monotonic() + _SLOWEST_SECONDS
        while time.monotonic() < end:
            if seen():
                return True
            if self.agent is not None and self.agent.poll() is not None:
                _say(f"*** the agent has ended, and this never happened: {what}")
                return False
            time.sleep(0.1)
        _say(f"*** this never happened: {what}")
        return False

    def journal(self, *words: str) -> Callable[[], bool]:
        """Return the question whether some line of the journal holds all of these words."""

        def seen() -> bool:
            journal = self.state / "journal.jsonl"
            lines = journal.read_text("utf-8").splitlines() if journal.exists() else []
            return any(all(word in line for word in words) for line in lines)

        return seen

    def portrait(self, pci: str) -> Callable[[], bool]:
        """Return the question whether the agent has kept what nvidia-smi tells of a GPU while it is well."""
        kept = self.state / "portraits.json"
        return lambda: kept.exists() and pci in kept.read_text("utf-8")


_GPUWARD = (sys.executable, "-m", "gpuward")


def run(words: Sequence[str] | None = None) -> int:
    """Run the demonstration; return 0 when every part of it ended as it should."""
    parser = argparse.ArgumentParser(prog="python -m gpuward.sim server", description=__doc__)
    parser.add_argument("--without", choices=["79"], help="leave a fault out, to see that nothing comes of it")
    asked = parser.parse_args(words)
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    with tempfile.TemporaryDirectory(prefix="gpuward-demo-") as folder:
        return _play(Path(folder), without=asked.without)


def _play(folder: Path, *, without: str | None) -> int:
    machine = machines.build(folder / "server", model="H100", count=8)
    _say("A pretend server with eight H100 GPUs: its own nvidia-smi, NVML and kernel log. The agent is the real one.")
    # A lost GPU takes no order about its persistence mode, and with that on it could not be drained.
    machine.change_gpu(5, persistence=False)
    try:
        machine.nvml()
    except Refused as error:
        _say(f"NVML is left out, the GPUs are read by nvidia-smi: {error}")
    settings = folder / "gpuward.toml"
    settings.write_text(_SETTINGS, encoding="utf-8")
    _say(
        "Its settings shorten the minute that an Xid 45 waits for its cause to five seconds; all else is as delivered."
    )
    stage = Stage(machine, folder / "state", settings, machine.environment())
    qualified = _qualified(stage)
    with beside(_agent_words(stage), env=stage.environment) as agent:
        stage = replace(stage, agent=agent)
        fine = stage.wait_for("the agent knows the GPUs", stage.portrait("0000:ab:00")) and qualified
        scenes = (
            _drilled(stage),
            _lost(stage, without),
            _double_bit(stage),
            _program(stage),
            _alone(stage),
            _quoted(stage),
            _asked_and_released(stage, without),
            _hung(stage),
        )
        fine = all(scenes) and fine
    _say(
        "\nOn a real server:  gpuward agent --standalone               says what it would do\n"
        "                   gpuward agent --standalone --mode repair  does it\n"
        "On a log of one:   gpuward scan /var/log/kern.log*"
    )
    return 0 if fine and agent.returncode == 0 else 1


def _roots(stage: Stage) -> list[str]:
    return ["--proc-root", str(stage.machine.proc), "--dev-root", str(stage.machine.dev)]


def _agent_words(stage: Stage) -> list[str]:
    return [
        *_GPUWARD,
        "agent",
        "--standalone",
        "--mode",
        "repair",
        "--kernel-log",
        str(stage.machine.log),
        "--state-dir",
        str(stage.state),
        *_roots(stage),
        "--config",
        str(stage.settings),
        "--node",
        HOST,
        "--probation-seconds",
        _PROBATION_SECONDS,
        "--poll-seconds",
        "2",
        "--read-seconds",
        "4",
    ]


def _qualified(stage: Stage) -> bool:
    """Prove on an idle GPU what is believed of this model and driver; without that the agent resets none of them."""
    _scene("first, on an idle GPU: does draining and resetting work here as gpuward believes?")
    return stage.gpuward("qualify", "0", "--yes", *_roots(stage)) == 0


def _lost(stage: Stage, without: str | None) -> bool:
    """Let a GPU fall off the bus under a training process: evidence is kept, and it is parked for a person."""
    if without == "79":
        return True
    _scene("GPU 5 falls off the bus: evidence kept, drained, and parked for a person, since no reset can reach it")
    with _held(stage, 5, "python3"):
        stage.machine.inject(5, 79)
        stage.wait_for("GPU 5 waits for its work", stage.journal("evacuating", "0000:ab:00"))
    return stage.wait_for("GPU 5 is parked", stage.journal('"to":"parked"', "0000:ab:00"))


def _double_bit(stage: Stage) -> bool:
    """Let a GPU hit an uncorrectable memory error under work: drained at once, reset when the work has ended."""
    _scene("GPU 3 hits an uncorrectable memory error: drained at once, its process runs on, then reset and proven")
    with _held(stage, 3, "train"):
        stage.machine.inject(3, 48)
        waits = stage.wait_for("GPU 3 waits for its work", stage.journal('"to":"evacuating"', "0000:44:00"))
        time.sleep(1.5)
        stage.gpuward("status")
    return stage.wait_for("GPU 3 returns", stage.journal('"to":"closed"', "0000:44:00")) and waits


def _program(stage: Stage) -> bool:
    """Let a bad program fault: one fault of the application, its teardown lines explained, the GPU reset when free."""
    _scene("a program on GPU 2 reads where it may not, and 24 teardown lines follow: one fault, the application's")
    stage.machine.inject(2, 31)
    for _ in range(24):
        stage.machine.inject(2, 45)
    return stage.wait_for("GPU 2 returns", stage.journal('"to":"closed"', "0000:3b:00"))


def _alone(stage: Stage) -> bool:
    """Let a lone 45 wait for its cause, then for its process, then be repaired."""
    _scene("a lone Xid 45 on GPU 1: it waits for a cause, then for its process; then it is reset, proven, returned")
    with _held(stage, 1, "serve"):
        stage.machine.inject(1, 45)
        waits = stage.wait_for("GPU 1 waits for its process", stage.journal("fenced", "0000:18:00"))
        time.sleep(1.5)
    return waits and stage.wait_for("GPU 1 returns", stage.journal('"to":"closed"', "0000:18:00"))


def _asked_and_released(stage: Stage, without: str | None) -> bool:
    """Let a person ask about the parked GPU, and take it back."""
    if without == "79":
        _scene("nothing is left to do: every GPU is in service")
        return stage.gpuward("status") == 0
    _scene("a person asks why GPU 5 is parked, and releases it: every mark of ours is undone")
    return (
        stage.gpuward("why", "5") == 0
        and stage.gpuward("release", "5") == 0
        and stage.wait_for("the release", stage.journal('"to":"closed"', "Released by a person"))
    )


def _drilled(stage: Stage) -> bool:
    """Rehearse a fault on a healthy GPU: all is told, and nothing is changed."""
    _scene("a drill on GPU 6: what an Xid 48 would lead to, from the line to the end, and nothing is changed")
    before = stage.machine.state().gpus[6]
    return stage.gpuward("drill", "6", "48", quiet=True) == 0 and stage.machine.state().gpus[6] == before


def _hung(stage: Stage) -> bool:
    """Let the driver's tools hang: the agent says so and goes on, nothing waits for them for ever."""
    _scene("nvidia-smi and NVML hang: unknown is said, not healthy, and nothing waits for ever")
    stage.machine.hang("query")
    stage.machine.hang("nvml")
    time.sleep(8)
    unknown = stage.gpuward("status") == 1
    stage.machine.hang("query", on=False)
    stage.machine.hang("nvml", on=False)
    return unknown


def _quoted(stage: Stage) -> bool:
    """Let a health check quote an Xid, which is no fault."""
    _scene("a health check quotes an Xid 79 of GPU 0: nothing comes of it, another program wrote it")
    with stage.machine.log.open("a", encoding="utf-8") as log:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())
        quoted = "NVRM: Xid (PCI:0000:0a:00): 79, GPU has fallen off the bus."
        log.write(f"{stamp} {HOST} node-check[2211]: found in the log: {quoted}\n")
    time.sleep(1.5)
    return not stage.journal("0000:0a:00")()


def _held(stage: Stage, gpu: int, name: str) -> Hold:
    return stage.machine.hold(gpu, name)


def _scene(text: str) -> None:
    _say(f"\n--- {text}")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
