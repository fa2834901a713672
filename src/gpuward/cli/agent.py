"""`gpuward agent`: the loop of one server, started and ended. The loop is in agent.standalone."""

import argparse
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import tzinfo

from gpuward.agent.board import board_object
from gpuward.agent.standalone import Plan, Standalone
from gpuward.cli import wiring
from gpuward.cli.desk import answer, show_board
from gpuward.cli.happened import line_of
from gpuward.cli.watch import stop_on_signals, warn
from gpuward.cli.wiring.gear import Gear, gear_of
from gpuward.isolation.merge import Merger
from gpuward.model.case import Mode
from gpuward.model.happening import Happening

HANDS = 8
"""Effects that may run side by side: one a GPU of a full server."""
_UNIT = """\
[Unit]
Description=gpuward: GPU fault isolation on this server
After=nvidia-persistenced.service

[Service]
ExecStart={program} agent --standalone --mode observe --state-dir /var/lib/gpuward
Restart=on-failure
RestartSec=2
StateDirectory=gpuward
StateDirectoryMode=0750
# A reset that is under way is waited for.
TimeoutStopSec=180
OOMScoreAdjust=-900

[Install]
WantedBy=multi-user.target
"""


def agent(asked: argparse.Namespace) -> int:
    """Run the command until a signal ends it; return its exit code."""
    if asked.print_unit:
        sys.stdout.write(_UNIT.format(program=wiring.program()))
        return 0
    if not asked.standalone:
        raise wiring.UsageError("say --standalone: the agent of one server is the one there is")
    zone = wiring.zone(asked.timezone)
    options = ["accept_user_records"] if asked.accept_user_records else []
    _, terms = wiring.judgement(asked.config, asked.profile, options=options)
    plan = Plan(
        mode=Mode(asked.mode),
        probation_seconds=asked.probation_seconds,
        poll_seconds=asked.poll_seconds,
        read_seconds=asked.read_seconds,
    )
    with gear_of(asked, warn) as gear, ThreadPoolExecutor(HANDS, thread_name_prefix="bench") as hands:
        standalone = Standalone(
            gear.outside,
            lambda: Merger(terms),
            tools=gear.tools,
            keeping=gear.keeping,
            plan=plan,
            hands=hands,
            say=_speaker(zone, as_json=asked.json),
            warn=warn,
            timezone=zone,
            node=asked.node or wiring.host_name(),
        )
        return _look(standalone, as_json=asked.json) if asked.once else _live(standalone, gear)


def _live(standalone: Standalone, gear: Gear) -> int:
    stop = stop_on_signals()
    with gear.door(lambda request: answer(standalone, gear.happenings, request)):
        standalone.run(lambda: stop.asked)
    return 0


def _look(standalone: Standalone, *, as_json: bool) -> int:
    """Read the GPUs once and say what they are; 1 when one of them is lost or needs something."""
    standalone.look()
    return show_board(board_object(standalone.board()), as_json=as_json)


def _speaker(zone: tzinfo, *, as_json: bool) -> Callable[[Happening], None]:
    def say(happening: Happening) -> None:
        line = line_of(happening, as_json=as_json, zone=zone)
        if line:
            print(line, flush=True)  # noqa: T201  the command's output

    return say
