"""The commands of a cluster: whom they ask is settled, here they ask it and print the answer."""

import argparse
import asyncio
import getpass
import random
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass

from gpuward.cli import wiring
from gpuward.cli.fleet import drills, orders
from gpuward.cli.fleet.lengths import check_lengths
from gpuward.cli.fleet.telling import report_lines, story_lines
from gpuward.cli.fleet.values import (
    board_value,
    case_value,
    meant_value,
    nodes_value,
    paused_value,
    report_value,
)
from gpuward.cli.fleet.voice import Voice
from gpuward.cli.fleet.words import Look, board_lines, case_lines, node_lines
from gpuward.cli.install import checked_namespace
from gpuward.cli.wiring.whom import reached
from gpuward.controller.desk import pausing, reporting
from gpuward.controller.desk.naming import Meant, named
from gpuward.controller.desk.reading import Desk, whoami
from gpuward.controller.desk.story import Story, story_of
from gpuward.controller.pace import Pace
from gpuward.isolation.ticket import Subject, ticket
from gpuward.model.case import CaseState
from gpuward.model.counted import many
from gpuward.model.objects.gpu_case import as_case
from gpuward.ports import Refused

Asked = argparse.Namespace
NOT_WELL = 1
MOST_STORIES = 20
"""So many cases of a node are told in full; the others are named."""


def run(asked: Asked) -> int:
    """Run a command on the cluster that it names; return its exit code. Raises EdgeError and UsageError."""
    checked_namespace(asked.namespace)
    check_lengths(asked)
    return asyncio.run(_answered(asked))


async def _answered(asked: Asked) -> int:
    pace = Pace(wiring.clock(), asyncio.sleep, random.random)
    async with reached(asked) as cluster:
        myself = await whoami(cluster, pace)
        desk = Desk(cluster, pace=pace, namespace=asked.namespace, myself=myself)
        return await COMMANDS[asked.command](desk, asked, Voice(sys.stdout, as_json=asked.json))


def look_of(desk: Desk, asked: Asked) -> Look:
    """Return how the person who asks reads."""
    return Look(wiring.zone(asked.timezone), desk.now)


def by_whom(desk: Desk, asked: Asked) -> str:
    """Return who gives an order: the one who is named, else as the server knows him, else as this machine does."""
    return str(asked.by or desk.myself.name or _local_user())


def _local_user() -> str:
    """Return who works at this machine; a container may know no name for him."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "somebody"


async def status(desk: Desk, asked: Asked, voice: Voice) -> int:
    """Say how the fleet is; 1 when anything needs a look."""
    board = await desk.board()
    voice.answer(board_value(board), board_lines(board, look_of(desk, asked)))
    return 0 if board.is_well else NOT_WELL


async def cases(desk: Desk, asked: Asked, voice: Voice) -> int:
    """List the cases."""
    if asked.node and await desk.node(asked.node) is None:
        raise Refused(f"there is no GPU node {asked.node} of which an agent has told; `gpuward nodes` lists them")
    found = await desk.cases(ended=asked.all, node=asked.node or "")
    indices = await desk.indices(node=asked.node or "") if found else {}
    value = {"cases": [case_value(case, indices=indices) for case in found]}
    ended = asked.all or bool(asked.node)
    voice.answer(value, case_lines(found, look_of(desk, asked), indices=indices, ended=ended))
    return 0


async def nodes(desk: Desk, asked: Asked, voice: Voice) -> int:
    """List the GPU servers."""
    board = await desk.board()
    voice.answer(nodes_value(board), node_lines(board, look_of(desk, asked)))
    return 0


async def why(desk: Desk, asked: Asked, voice: Voice) -> int:
    """Tell the whole story of a case, of the cases of a node or of a GPU."""
    meant = await named(desk, asked.name)
    stories = [await story_of(desk, name) for name in meant.cases[:MOST_STORIES]]
    lines = list(_told(stories, meant.cases[MOST_STORIES:], look_of(desk, asked)))
    if asked.ticket:
        voice.answer(meant_value(meant, stories), "\n\n".join(map(_ticket, stories)).splitlines())
        return 0
    if not stories:
        lines = [_no_case(meant.what, meant.name)]
    elif meant.what in {Meant.NODE, Meant.GPU} and not any(_is_open(story) for story in stories):
        lines.insert(0, f"{meant.name} has no open case; this is its newest:")
    voice.answer(meant_value(meant, stories), lines)
    return 0


def _ticket(story: Story) -> str:
    case = as_case(story.case)
    gpus = () if story.node is None else story.node.gpus
    model = next((gpu.model for gpu in gpus if gpu.pci == case.gpu), "")
    return ticket(Subject(case, model=model, lines=story.lines))


async def report(desk: Desk, asked: Asked, voice: Voice) -> int:
    """Tell what came of the faults of a while."""
    look = look_of(desk, asked)
    since = wiring.moment("--since", asked.since, timezone=look.zone, now=desk.now)
    if since is not None and since > desk.now:
        raise wiring.UsageError(f"--since: {asked.since} is still to come by the clock of the cluster")
    told = await reporting.report(desk, since=desk.now if since is None else since)
    indices = await desk.indices() if told.incidents else {}
    voice.answer(report_value(told, indices=indices), report_lines(told, look, indices=indices))
    return 0


async def pause(desk: Desk, asked: Asked, voice: Voice) -> int:
    """Let nothing new be isolated."""
    paused = await pausing.pause(desk, by=by_whom(desk, asked), because=asked.because)
    line = f"nothing new is isolated from now on; recoveries and open cases go on: {paused.now.sentence}"
    if not paused.changed:
        line = f"it was paused before, and stays so: {paused.now.sentence}"
    voice.answer(paused_value(paused), [line, *await _leaderless(desk)])
    return 0


async def resume(desk: Desk, _asked: Asked, voice: Voice) -> int:
    """Let the fleet go on."""
    paused = await pausing.resume(desk)
    waiting = [case.name for case in await desk.cases() if case.state == CaseState.SUSPECT and not case.drill]
    held = f"; {many(len(waiting), 'suspect case is', 'suspect cases are')} decided now" if waiting else ""
    line = f"the fleet goes on{held}; it had been {paused.before.sentence.partition(';')[0]}"
    voice.answer(
        paused_value(paused), [line if paused.changed else "the fleet was not paused", *await _leaderless(desk)]
    )
    return 0


async def _leaderless(desk: Desk) -> list[str]:
    leads = await desk.leads()
    return ["no controller leads: it is heeded as soon as one does"] if leads is False else []


def _told(stories: list[Story], others: Iterable[str], look: Look) -> Iterable[str]:
    for number, story in enumerate(stories):
        yield from ([""] if number else [])
        yield from story_lines(story, look)
    names = ", ".join(others)
    if names:
        yield f"and {names}: `gpuward why CASE` tells one"


def _no_case(what: Meant, name: str) -> str:
    if what is Meant.FAULT:
        return f"no case works on the fault {name}; `kubectl get gpufault {name} -o yaml` says how it was judged"
    return f"{name} has no case, and had none that is still kept"


def _is_open(story: Story) -> bool:
    state = story.case.spec.state if story.case.status is None else story.case.status.state
    return state not in {CaseState.CLOSED, CaseState.WITHDRAWN}


@dataclass(frozen=True, slots=True)
class _Ordering:
    """A command that gives an order."""

    act: Callable[[Desk, Asked, Voice, str], Awaitable[int]]

    async def __call__(self, desk: Desk, asked: Asked, voice: Voice) -> int:
        return await self.act(desk, asked, voice, by_whom(desk, asked))


COMMANDS: Mapping[str, Callable[[Desk, Asked, Voice], Awaitable[int]]] = {
    "status": status,
    "cases": cases,
    "nodes": nodes,
    "why": why,
    "report": report,
    "pause": pause,
    "resume": resume,
    "approve": _Ordering(orders.order),
    "off": _Ordering(orders.order),
    "retry": _Ordering(orders.order),
    "release": _Ordering(orders.order),
    "drill": drills.drill,
}
