"""What `make demo` shows: a pretend fleet falls ill, and the real controllers and agents work on it.

What is told is what happens; what it came to is counted from that. Nothing of this machine is touched.
"""

import argparse
import contextlib
import math
import shutil
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from gpuward.controller.terms import Terms
from gpuward.isolation.evacuation import EvictionTerms
from gpuward.isolation.kernel.text import shown
from gpuward.model.case import Mode
from gpuward.model.happening import Happening, What
from gpuward.model.pod import pod_of
from gpuward.model.resource import PODS
from gpuward.sim.cluster import front
from gpuward.sim.fleet.acts import run_in
from gpuward.sim.fleet.ending import outlet
from gpuward.sim.fleet.fleet import Fleet
from gpuward.sim.fleet.layout import Layout
from gpuward.sim.fleet.summary import Summary, Told, summary_of
from gpuward.sim.fleet.time import Time
from gpuward.sim.fleet.weather import Kind, Stroke
from gpuward.sim.fleet.workloads import Workload

SPEED = 10.0
"""Pretend seconds a second."""
_ACT_SECONDS = 200.0
_CALM_SECONDS = 900.0
_DRILLED = -1
"""The last node stands by."""
_LAYOUT = Layout(
    nodes=16,
    standbys=2,
    workloads=(
        Workload("train-a", 6, 8, grace_seconds=60),
        Workload("train-b", 5, 8, grace_seconds=60),
        Workload("serve", 6, 2, serves=True),
    ),
    visit_seconds=(20.0, 40.0),
    skew_seconds=0.0,
    lease_seconds=60,
)
_TERMS = Terms(mode=Mode.REPAIR, probation_seconds=30.0, eviction=EvictionTerms(deadline_seconds=120.0))
STORY = (
    Stroke(1, 10.0, Kind.ILL, 2, 3, "halted"),
    Stroke(2, 50.0, Kind.ALARM, 4, 0, "written-by-a-user"),
    Stroke(3, 70.0, Kind.ILL, 6, 5, "off-the-bus"),
    Stroke(4, 130.0, Kind.ILL, 8, 1, "double-bit"),
    Stroke(5, 160.0, Kind.CONTROLLER, calls=3),
)
"""Two training jobs lose nodes, a line comes that no kernel wrote, and the leading controller is killed."""


@dataclass(slots=True)
class _Screen:
    """Prints what happens, with a line below it on a terminal that shows how things stand."""

    live: bool
    is_paced: bool
    standing: str = ""

    def say(self, text: str) -> None:
        """Print a line."""
        erase = "\r\x1b[K" if self.live else ""
        sys.stdout.write(f"{erase}{text}\n{self._standing() if self.live else ''}")
        sys.stdout.flush()

    def stand(self, standing: str) -> None:
        """Show how things stand, on a terminal."""
        self.standing = standing
        if self.live:
            sys.stdout.write(f"\r\x1b[K{self._standing()}")
            sys.stdout.flush()

    def clear(self) -> None:
        """Leave the terminal as it was, but for the lines; that it is gone says whoever writes to it next."""
        with contextlib.suppress(OSError):
            self.stand("")

    def _standing(self) -> str:
        """Return how things stand, cut to one line of the terminal: no more than that is erased."""
        return self.standing[: shutil.get_terminal_size().columns - 1]


def run(words: Sequence[str] | None = None) -> int:
    """Run the demonstration; return 0 when all went as it should."""
    parser = argparse.ArgumentParser(prog="python -m gpuward.sim fleet", description=__doc__, allow_abbrev=False)
    parser.add_argument(
        "--speed", type=float, default=SPEED, help=f"pretend seconds a second; 0: no waiting (default: {SPEED:g})"
    )
    parser.add_argument(
        "--without",
        type=int,
        choices=[one.number for one in STORY],
        action="append",
        default=[],
        help="leave a stroke out, by its number",
    )
    asked = parser.parse_args(words)
    if not 0 <= asked.speed < math.inf:
        parser.error("--speed must be a number, and not negative")
    screen = _Screen(live=sys.stdout.isatty() and asked.speed > 0, is_paced=asked.speed > 0)
    screen.say("16 pretend nodes with 8 H100 each: two training jobs, one that serves, two nodes standing by.")
    screen.say("The controllers and agents are the real ones; machines, cluster and time are pretend.\n")
    strokes = [one for one in STORY if one.number not in asked.without]
    try:
        summary, withheld = run_in(lambda time: _run(screen, strokes, time=time), speed=asked.speed or None)
    finally:
        screen.clear()
    screen.say("\nWhat it came to:")
    for line in (*withheld, *summary.lines()):
        screen.say(f"  {line}")
    return 1 if summary.complaints else 0


async def _run(screen: _Screen, strokes: Sequence[Stroke], *, time: Time) -> tuple[Summary, list[str]]:
    told, heard = Told(), list[Happening]()

    def hear(happening: Happening) -> None:
        told.hear(happening)
        heard.append(happening)
        line = _line(happening)
        if line:
            screen.say(line)

    with outlet(hear) as tell:
        fleet = Fleet(_LAYOUT, seed=16, terms=_TERMS, tell=tell, time=time)
        fleet.skips = False
        async with fleet.living(), _open_to_others(fleet, screen):
            fleet.expect(strokes)
            while fleet.elapsed < _ACT_SECONDS:
                await fleet.live_until(fleet.elapsed + 1.0)
                screen.stand(_standing(fleet))
            settled = await fleet.settle(within_seconds=_CALM_SECONDS)
            summary = summary_of(fleet, told)
    withheld = _withheld(heard)
    return summary, withheld if settled else [*withheld, "not all came to an end"]


@contextlib.asynccontextmanager
async def _open_to_others(fleet: Fleet, screen: _Screen) -> AsyncIterator[None]:
    """Let other terminals ask the pretend cluster as long as it lives; nobody is that fast where nothing waits."""
    if not screen.is_paced:
        yield
        return
    with TemporaryDirectory(prefix="gpuward-demo-") as folder:
        file = Path(folder) / "kubeconfig"
        async with front.opened(fleet.cluster) as door:
            door.write_kubeconfig(file)
            screen.say("As long as it runs, every command for a cluster works on it from a second terminal:")
            screen.say(f"  gpuward status --kubeconfig {file}")
            screen.say(f"  gpuward drill {fleet.names[_DRILLED]} 5 79 --kubeconfig {file}\n")
            yield


def _line(happening: Happening) -> str:
    """Return a happening in words; empty for what only the journal needs."""
    place = "".join(f" {part}" for part in (happening.node, happening.gpu) if part)
    stamp = datetime.fromtimestamp(happening.at, UTC).strftime("%H:%M:%S")
    match happening.what:
        case What.TRUTH:
            words = f"*** {happening.because}"
        case What.OBSERVED if happening.outcome == "ignore":
            return ""
        case What.OBSERVED:
            words = f"seen, {happening.outcome}: {happening.because.rpartition(';')[2][:90]}"
        case What.VERDICT:
            words = f"case {happening.case}: {happening.because[:110]}"
        case What.MOVED:
            words = f"{happening.before} -> {happening.after}: {happening.because}"
        case What.EFFECT:
            words = f"{happening.effect} {happening.outcome}"
        case _:
            words = happening.because
    return shown(f"{stamp}{place}{':' if place else ''} {words}")


def _standing(fleet: Fleet) -> str:
    pods = fleet.server.list(PODS, project=pod_of).items
    running = sum(pod.phase == "Running" for pod in pods)
    cases = fleet.witness.open_cases()
    sick = ", ".join(sorted(f"{case.node} {case.state}" for case in cases)) or "none"
    return f"[{fleet.elapsed:.0f} s] {running} of {len(pods)} pods run; open cases: {sick}"


def _withheld(heard: Sequence[Happening]) -> list[str]:
    """Return what followed from each false alarm: nothing may have."""
    alarms = [one for one in heard if one.what is What.TRUTH and one.outcome == "false alarm"]
    words = []
    for alarm in alarms:
        where = (alarm.node, alarm.gpu)
        followed = sum((one.node, one.gpu) == where and one.what in {What.MOVED, What.EFFECT} for one in heard)
        words.append(f"false alarm on {alarm.node} {alarm.gpu}: {followed} steps followed ({alarm.because})")
    return words
