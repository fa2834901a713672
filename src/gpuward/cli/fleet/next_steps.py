"""What comes next of a case, in a sentence for a person: what is due, what is under way, or what its state leads to."""

from collections.abc import Mapping

from gpuward.controller.desk.glance import CaseGlance
from gpuward.model.case import CaseState, Mode, Order

_NEXT: Mapping[str, str] = {
    CaseState.SUSPECT: "it is taken out of service when nothing holds that back",
    CaseState.FENCED: "its work is moved, or waited for",
    CaseState.SAVING: "its jobs save, then its pods are evicted",
    CaseState.EVACUATING: "its pods end, then it is vacated",
    CaseState.VACATED: "repair, where the mode allows it",
    CaseState.REPAIRING: "reset, then proof",
    CaseState.VERIFYING: "probation, when the proof holds",
    CaseState.PROBATION: "return to service, when no new fault comes",
    CaseState.PARKED: "a person",
    CaseState.CLOSED: "nothing: it has ended",
    CaseState.WITHDRAWN: "nothing: it has ended",
}


def next_of(case: CaseGlance) -> str:
    """Return what comes next."""
    if not case.is_open:
        return _NEXT[CaseState.CLOSED]
    if case.order == Order.RELEASE:
        return "every mark is being undone"
    if case.state == CaseState.SUSPECT and case.mode == Mode.OBSERVE and not case.drill:
        return "nothing: the mode is observe"
    if case.due:
        return case.due
    if case.pending:
        return f"under way: {', '.join(dict.fromkeys(case.pending))}"
    return _NEXT.get(case.state, "not known by this version")
