"""`gpuward watch`: this machine's kernel log, told as it comes. The loop is in agent.watch."""

import argparse
import signal
import sys
from types import FrameType

from gpuward.agent.watch import Told, Watch
from gpuward.cli import wiring
from gpuward.cli.objects import change_object, dumps
from gpuward.cli.sentence import sentence_of
from gpuward.isolation.catalogue.load import load
from gpuward.isolation.kernel.text import shown
from gpuward.isolation.merge import Merger
from gpuward.model.fault import ChangeKind
from gpuward.model.level import Level

_COLOURS = {Level.P0: "\x1b[1;31m", Level.P1: "\x1b[33m", Level.P2: "\x1b[36m", Level.IGNORE: "\x1b[2m"}


def watch(asked: argparse.Namespace) -> int:
    """Run the command until a signal ends it; return its exit code."""
    zone = wiring.zone(asked.timezone)
    options = ["accept_user_records"] if asked.accept_user_records else []
    _, terms = wiring.judgement(asked.config, asked.profile, options=options)
    book = load()
    coloured = not asked.json and wiring.wants_colour(sys.stdout)

    def tell(told: Told) -> None:
        if told.change.kind is ChangeKind.CLOSED:
            return
        if asked.json:
            print(dumps(change_object(told.change, told=told.at, history=told.history)), flush=True)  # noqa: T201  output
            return
        lines = sentence_of(told, book, zone)
        if coloured:
            lines[0] = f"{_COLOURS[told.change.fault.verdict.level]}{lines[0]}\x1b[0m"
        print("\n".join(lines), flush=True)  # noqa: T201  the command's output

    with wiring.held(asked.state_dir, warn) as state_dir:
        live = wiring.live(asked.kernel_log, state_dir=state_dir, proc_root=asked.proc_root)
        for note in live.notes:
            warn(note)
        watching = Watch(
            live.outside,
            lambda: Merger(terms),
            tell=tell,
            warn=warn,
            timezone=zone,
            node=asked.node or wiring.host_name(),
        )
        stop = stop_on_signals()
        watching.run(lambda: stop.asked)
    return 0


class Stop:
    """Whether a signal asked the watch to end."""

    def __init__(self) -> None:
        self.asked = False

    def note(self, _number: int, _frame: FrameType | None) -> None:
        """Take the signal; the round that is going on is finished."""
        self.asked = True


def stop_on_signals() -> Stop:
    """Return what notes SIGTERM and SIGINT from now on."""
    stop = Stop()
    signal.signal(signal.SIGTERM, stop.note)
    signal.signal(signal.SIGINT, stop.note)
    return stop


def warn(sentence: str) -> None:
    """Tell a person something on standard error."""
    sys.stderr.write(f"gpuward: {shown(sentence)}\n")
    sys.stderr.flush()
