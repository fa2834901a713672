"""`gpuward drill NODE GPU CODE` on a cluster: a marked case is opened, and told of until it has ended."""

import argparse
import asyncio

from gpuward.cli import wiring
from gpuward.cli.fleet.telling import effect_line, entry_line, told_of
from gpuward.cli.fleet.values import story_value
from gpuward.cli.fleet.voice import Voice, say_away
from gpuward.cli.fleet.words import Look
from gpuward.cli.voice import warn
from gpuward.controller.desk.drilling import begin, follow, is_over, went_well
from gpuward.controller.desk.reading import Desk
from gpuward.controller.desk.story import story_of
from gpuward.isolation.merge import Merger
from gpuward.model.case import Mode, Outcome
from gpuward.model.objects.gpu_case import GpuCase, as_case
from gpuward.ports import Unreachable

NOT_WELL = 1


async def drill(desk: Desk, asked: argparse.Namespace, voice: Voice) -> int:
    """Rehearse a fault; 0 when the drill ended as it should or the code opens no case, else 1."""
    if asked.node is None:
        raise wiring.UsageError("a drill on a cluster needs the node too: gpuward drill NODE GPU CODE")
    _, terms = wiring.judgement(asked.config, None)
    mode = None if asked.mode is None else Mode(asked.mode)
    drilled = await begin(desk, asked.node, asked.gpu, asked.number, mode=mode, merger=Merger(terms))
    verdict = drilled.fault.verdict
    if drilled.case is None:
        line = f"{verdict.because} It is graded {verdict.level}: no case would be opened."
        voice.answer({"case": None, "level": str(verdict.level), "because": verdict.because}, [line])
        return 0
    name = drilled.case.head.name
    voice.say([f"{name}: a drill of mode {drilled.case.spec.drill}; nothing is changed by it: {verdict.because}"])
    try:
        case = await _followed(desk, drilled.case, asked, voice=voice)
    except asyncio.CancelledError:  # by Ctrl-C
        warn(f"the drill goes on: {_how_on(name)}")
        raise
    well = went_well(case)
    try:
        story = await story_of(desk, name)
    except Unreachable:
        warn(f"the drill goes on, for all that is known: {_how_on(name)}")
        raise
    value = story_value(story) | {"over": is_over(case), "well": well}
    voice.answer(value, [_end(case)])
    return 0 if well else NOT_WELL


async def _followed(desk: Desk, case: GpuCase, asked: argparse.Namespace, *, voice: Voice) -> GpuCase:
    """Tell what comes of a drill until it has ended, or for so long; return its case."""
    if await desk.leads() is False:
        voice.say(["no controller leads: the drill begins as soon as one does"])
    news = _News(Look(wiring.zone(asked.timezone), desk.now), voice)
    return await follow(desk, case, wait_seconds=asked.wait_seconds, told=news.tell, away=say_away)


class _News:
    """Tells what is new of a case since the last look."""

    def __init__(self, look: Look, voice: Voice) -> None:
        self._look = look
        self._voice = voice
        self._told: set[str] = set()

    def tell(self, case: GpuCase) -> None:
        """Tell what was not told before."""
        lines = [f"  {entry_line(entry, self._look)}" for entry in told_of(case.status)]
        done = [one for one in as_case(case).effects if one.outcome is not Outcome.ASKED]
        lines += [f"  step {effect_line(effect)}" for effect in done]
        self._voice.say(line for line in lines if line not in self._told)
        self._told.update(lines)


def _end(case: GpuCase) -> str:
    now, name = as_case(case), case.head.name
    if went_well(case):
        return f"the drill is over as it should be: {now.because}"
    if is_over(case):
        failed = [effect_line(one) for one in now.effects if one.outcome in {Outcome.FAILED, Outcome.REFUSED}]
        return f"the drill is over, and not as it should be: {'; '.join(failed) or now.because}"
    return f"the drill is {now.state} and goes on ({now.because}): {_how_on(name)}"


def _how_on(name: str) -> str:
    return f"`gpuward why {name}` tells how, `gpuward release {name}` ends it"
