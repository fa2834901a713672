"""Which PodDisruptionBudgets cover a pod: the server says that there is more than one, and not which."""

from collections.abc import Iterable, Mapping

from gpuward.model.selector import selects
from gpuward.ports import Object


def covering(budgets: Iterable[Object], labels: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the budgets, all of one namespace, that select a pod with these labels, in order."""
    selectors = ((str(one["metadata"]["name"]), (one.get("spec") or {}).get("selector")) for one in budgets)
    return tuple(sorted(name for name, selector in selectors if selects(selector, labels)))
