"""`gpuward sim`: a pretend fleet run from a seed, its journal printed. What it is made of is in sim.fleet."""

import argparse
import sys
import time

from gpuward.cli import wiring
from gpuward.cli.objects import dumps
from gpuward.cli.voice import warn
from gpuward.controller.terms import Terms
from gpuward.model.case import Mode
from gpuward.model.counted import many
from gpuward.model.happening import Happening, as_object
from gpuward.sim.fleet.run import Asked, run
from gpuward.sim.fleet.weather import plan

PROGRESS_SECONDS = 5.0
"""How often is told how far it is."""


def sim(asked: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    began = time.process_time()
    terms = Terms(mode=Mode(asked.mode), kinds=wiring.taint_words())
    _check_strokes(asked)
    fleet = Asked(asked.seed, asked.nodes, asked.gpus, asked.days, terms=terms, less=tuple(asked.without))
    progress = _Progress(asked.nodes, asked.days)
    try:
        summary = run(fleet, tell=_tell, progress=progress)
    except KeyboardInterrupt:
        warn(f"ended by Ctrl-C, {progress.heard:.1f} of {many(asked.days, 'day')} were over; the journal ends there")
        raise
    sys.stdout.flush()
    seconds = time.process_time() - began
    warn(
        f"seed {asked.seed}: {many(asked.nodes, 'node')} with {many(asked.gpus, 'GPU')} each, {many(asked.days, 'day')}"
    )
    for line in summary.lines():
        warn(line)
    warn(f"{asked.nodes * asked.days / seconds:.0f} node-days a CPU second")
    return 1 if summary.complaints else 0


def _check_strokes(asked: argparse.Namespace) -> None:
    """Raise wiring.UsageError when a stroke that shall be left out is none of this life."""
    if not asked.without:
        return
    planned = len(plan(asked.seed, nodes=asked.nodes, gpus=asked.gpus, days=asked.days))
    for number in asked.without:
        if number > planned:
            there = f"strokes 1 to {planned}" if planned else "no strokes"
            raise wiring.UsageError(
                f"--without {number}: seed {asked.seed} has {there} with these nodes, GPUs and days"
            )


def _tell(happening: Happening) -> None:
    sys.stdout.write(dumps(as_object(happening)) + "\n")


class _Progress:
    """Tells on standard error now and then how far a run is."""

    def __init__(self, nodes: int, days: float) -> None:
        self._nodes = nodes
        self._days = days
        self._began, self._told = time.process_time(), time.monotonic()
        self.heard = 0.0
        """How many days are over."""

    def __call__(self, days: float, cases: int) -> None:
        """Tell it, if that was not done for a while."""
        self.heard = days
        now = time.monotonic()
        if now - self._told >= PROGRESS_SECONDS:
            self._told = now
            speed = days * self._nodes / (time.process_time() - self._began)
            warn(f"day {days:.1f} of {self._days:g}, {many(cases, 'case')}, {speed:.0f} node-days a CPU second")
