"""What the answer to an eviction means. Whether to ask again is not decided here.

The words are those of the API server (pkg/registry/core/pod/storage/eviction.go), tried against version 1.36. It asks
the budgets before it compares the uid: where another pod has taken the name, that one may be held or tangled first.
"""

from gpuward.adapters.kubernetes.answer import Answer, Status
from gpuward.adapters.kubernetes.place import shown
from gpuward.ports import Evicted, Eviction

_HELD_CAUSE = "DisruptionBudget"
_TANGLED = "more than one PodDisruptionBudget"


def read_eviction(answer: Answer) -> Eviction | None:
    """Return what became of it, None when the answer is an error as any other."""
    if answer.is_good:
        return Eviction(Evicted.ASKED)
    status = answer.status()
    outcome = _outcome(status)
    return None if outcome is None else Eviction(outcome, _why(status))


def is_settled(answer: Answer) -> bool:
    """Say whether the answer tells what became of it: a 429 of a budget is no overload, and is not asked again here."""
    return read_eviction(answer) is not None


def _outcome(status: Status) -> Evicted | None:
    if status.code == 429 and any(cause.reason == _HELD_CAUSE for cause in status.causes):  # noqa: PLR2004  HTTP's own
        return Evicted.HELD
    if status.code == 500 and _TANGLED in status.message:  # noqa: PLR2004  HTTP's own
        return Evicted.TANGLED
    return Evicted.GONE if status.is_missing or status.is_other_uid else None


def _why(status: Status) -> str:
    """Return the server's words; only the cause names the budget."""
    return shown(" ".join((status.words, *(cause.message for cause in status.causes))))
