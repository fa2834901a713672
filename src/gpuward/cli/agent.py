"""`gpuward agent`: the loop of one server, started and ended. The loop is in agent.standalone."""

import argparse
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from typing import Any

from gpuward.agent.board import board_object
from gpuward.agent.outfit import Plan
from gpuward.agent.standalone import Standalone
from gpuward.cli import wiring
from gpuward.cli.desk import answer, show_board
from gpuward.cli.voice import speaker, warn
from gpuward.cli.watch import stop_on_signals
from gpuward.cli.wiring.gear import Gear, gear_of
from gpuward.isolation.merge import Merger
from gpuward.model.case import Mode
from gpuward.settings import AgentSettings

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
        _see_that_it_may_serve(asked)
    zone = wiring.zone(asked.timezone)
    options = ["accept_user_records"] if asked.accept_user_records else []
    settings, terms = wiring.judgement(asked.config, asked.profile, options=options)
    chosen = _chosen(asked, settings.agent)
    plan = Plan(
        mode=chosen.mode,
        brake=settings.brake,
        budget=settings.budget,
        probation_seconds=chosen.probation_seconds,
        poll_seconds=chosen.poll_seconds,
        read_seconds=chosen.read_seconds,
    )
    with gear_of(asked, chosen, warn) as gear, ThreadPoolExecutor(HANDS, thread_name_prefix="bench") as hands:
        made: dict[str, Any] = {
            "tools": gear.tools,
            "plan": plan,
            "senses": replace(gear.senses, grading=wiring.finding_grades(settings), host=wiring.host_name()),
            "hands": hands,
            "say": speaker(zone, as_json=asked.json, kept="the journal has it"),
            "warn": warn,
            "timezone": zone,
        }
        if not asked.standalone:
            return _serve(asked, gear, lambda: Merger(terms), made)
        node = asked.node or wiring.host_name()
        standalone = Standalone(gear.outside, lambda: Merger(terms), keeping=gear.keeping, node=node, **made)
        return _look(standalone, as_json=asked.json) if asked.once else _live(standalone, gear)


def _see_that_it_may_serve(asked: argparse.Namespace) -> None:
    """Refuse what makes sense on a server alone only, and to work for a cluster where none is named."""
    if asked.kubeconfig is None and not wiring.is_in_a_pod():
        raise wiring.UsageError("say --standalone for a server alone, or --kubeconfig FILE for a node of a cluster")
    if asked.once or asked.mode is not None:
        raise wiring.UsageError("--once and --mode are for --standalone; on a cluster the controller says the mode")


def _serve(asked: argparse.Namespace, gear: Gear, new_merger: Callable[[], Merger], made: dict[str, Any]) -> int:
    """Work for a cluster; what that takes is loaded only here."""
    from gpuward.agent.member import Member  # noqa: PLC0415  a server alone needs none of it
    from gpuward.cli.member import serve_node  # noqa: PLC0415  as above

    return serve_node(
        asked,
        gear,
        lambda post, node: Member(gear.outside, new_merger, chest=gear.chest, post=post, node=node, **made),
    )


def _chosen(asked: argparse.Namespace, settings: AgentSettings) -> AgentSettings:
    """Return the agent's settings with the words of the command line in front."""
    said = {field.name: getattr(asked, field.name) for field in fields(AgentSettings)}
    said = {name: value for name, value in said.items() if value is not None}
    if "mode" in said:
        said["mode"] = Mode(said["mode"])
    return replace(settings, **said)


def _live(standalone: Standalone, gear: Gear) -> int:
    stop = stop_on_signals()
    with gear.door(lambda request: answer(standalone, gear.happenings, request)):
        standalone.run(lambda: stop.asked)
    return 0


def _look(standalone: Standalone, *, as_json: bool) -> int:
    """Read the GPUs once and say what they are; 1 when one of them is lost or needs something."""
    standalone.look()
    return show_board(board_object(standalone.board()), as_json=as_json)
