"""One long run of a pretend fleet, as `gpuward sim run` asks for it: told as it happens, and summed up."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from gpuward.controller.record import Tell
from gpuward.controller.terms import Terms
from gpuward.model.happening import Happening
from gpuward.sim.fleet.acts import run_in
from gpuward.sim.fleet.ending import outlet
from gpuward.sim.fleet.fleet import Fleet
from gpuward.sim.fleet.layout import usual
from gpuward.sim.fleet.summary import Summary, Told, summary_of
from gpuward.sim.fleet.time import Time
from gpuward.sim.fleet.weather import DAY_SECONDS, plan, without

CALM_SECONDS = 2 * DAY_SECONDS
"""How long at most all may take to come to an end once the weather is calm."""
_TOLD_EVERY_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be run; `less` are the numbers of strokes that are left out."""

    seed: int
    nodes: int
    gpus: int
    days: float
    terms: Terms
    less: Sequence[int] = ()


def run(asked: Asked, *, tell: Tell, progress: Callable[[float, int], None]) -> Summary:
    """Run it and return what it came to. `progress` hears now and then how many days are over, of how many cases."""
    return run_in(lambda time: _run(asked, tell, progress, time=time))


async def _run(asked: Asked, tell: Tell, progress: Callable[[float, int], None], *, time: Time) -> Summary:
    told = Told()

    def hear_and_tell(happening: Happening) -> None:
        told.hear(happening)
        tell(happening)

    end = asked.days * DAY_SECONDS
    with outlet(hear_and_tell) as out:
        fleet = Fleet(usual(asked.nodes, gpus=asked.gpus), seed=asked.seed, terms=asked.terms, tell=out, time=time)
        async with fleet.living():
            fleet.expect(without(plan(asked.seed, nodes=asked.nodes, gpus=asked.gpus, days=asked.days), asked.less))
            while fleet.elapsed < end:
                await fleet.live_until(min(end, fleet.elapsed + _TOLD_EVERY_SECONDS))
                progress(fleet.elapsed / DAY_SECONDS, len(fleet.witness.seen.cases))
            settled = await fleet.settle(within_seconds=CALM_SECONDS)
            summary = summary_of(fleet, told)
    if settled:
        return summary
    return replace(summary, complaints=(*summary.complaints, "not all came to an end once the weather was calm"))
