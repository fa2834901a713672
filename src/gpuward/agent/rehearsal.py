"""A drill on the bench: every effect is looked at and said as far as it can be without changing the machine.

Evidence is kept and readings are taken as in a real case, so that a missing tool or permission is found.
"""

from collections.abc import Callable

from gpuward.agent.bench import (
    DRAIN_SECONDS,
    NO_MINOR,
    Job,
    Result,
    Tools,
    held_by,
    keep_evidence,
    services_of,
    what_is_wrong,
)
from gpuward.agent.orders import is_ordered_drill
from gpuward.model.case import EffectKind, Outcome
from gpuward.ports import EdgeError, Refused

_MARK = "drill: "


def rehearse(job: Job, tools: Tools) -> Result:
    """Return what would become of the effect, and why in words that begin with `drill: `; nothing is changed.

    Nothing is remembered as stopped, and nothing is forgotten. No edge error escapes.
    """
    try:
        result = _REHEARSED[job.effect.kind](job, tools)
    except Refused as error:
        result = Result(Outcome.REFUSED, str(error))
    except EdgeError as error:
        result = Result(Outcome.FAILED, str(error))
    return Result(result.outcome, f"{_MARK}{result.why}")


def _evidence(job: Job, tools: Tools) -> Result:
    kept = keep_evidence(job, tools)
    return Result(kept.outcome, f"kept as in a real case, {kept.why}")


def _drain(job: Job, tools: Tools) -> Result:
    persistence = "" if job.gpu.persistence is False else "persistence mode would be turned off, and "
    return _done(f"{persistence}the GPU would be drained; it is {_drain_state(job, tools)}")


def _undrain(job: Job, tools: Tools) -> Result:
    return _done(f"the drain of the GPU would be undone; it is {_drain_state(job, tools)}")


def _drain_state(job: Job, tools: Tools) -> str:
    return "drained now" if tools.driver.is_drained(job.gpu.pci, DRAIN_SECONDS) else "not drained now"


def _pause(job: Job, tools: Tools) -> Result:
    if job.gpu.minor is None:
        return Result(Outcome.REFUSED, NO_MINOR)
    units = services_of(tools.holders.of(job.gpu.minor))
    return _done(f"{', '.join(units)} would be stopped" if units else "no known service holds the GPU, so none is due")


def _restore(job: Job, tools: Tools) -> Result:
    """Name what would be started: what holds the GPU now is what a real case would have stopped."""
    holders = () if job.gpu.minor is None else tools.holders.of(job.gpu.minor)
    units = tuple(dict.fromkeys((*job.paused, *services_of(holders))))
    due = [f"{', '.join(units)} would be started again"] if units else []
    if job.gpu.persistence and not job.case.marks.drained:
        due.append("persistence mode would be turned on again")
    return _done("; ".join(due) or "nothing would have to be put back")


def _reset(job: Job, tools: Tools) -> Result:
    """Tell whether it would be reset now. The drill of a cluster is not moved for: what holds the GPU would be gone."""
    refusal = held_by(job, tools)
    if refusal and job.gpu.minor is not None and is_ordered_drill(job.case):
        return _done(f"{refusal} now; a real case waits until that has gone, and then it would be reset")
    return Result(Outcome.REFUSED, refusal) if refusal else _done("no work holds the GPU, so it would be reset")


def _verify(job: Job, tools: Tools) -> Result:
    wrong = what_is_wrong(job, tools)
    check = "there is no check command" if tools.check is None else "the check command is not run in a drill"
    if wrong:
        return Result(Outcome.FAILED, f"{wrong}; {check}")
    return _done(f"all that is read of the GPU is as it was; {check}")


def _done(why: str) -> Result:
    return Result(Outcome.DONE, why)


_REHEARSED: dict[EffectKind, Callable[[Job, Tools], Result]] = {
    EffectKind.EVIDENCE: _evidence,
    EffectKind.DRAIN: _drain,
    EffectKind.UNDRAIN: _undrain,
    EffectKind.PAUSE: _pause,
    EffectKind.RESTORE: _restore,
    EffectKind.RESET: _reset,
    EffectKind.VERIFY: _verify,
}
