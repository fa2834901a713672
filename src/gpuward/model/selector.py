"""Whether a label selector of the cluster picks an object by its labels. What is picked for what is elsewhere."""

from collections.abc import Mapping
from typing import Any

from gpuward.model.found import part


def selects(selector: Any, labels: Mapping[str, str]) -> bool:
    """Return whether a label selector fits (policy/v1: an empty one fits every pod, an absent one none)."""
    if not isinstance(selector, Mapping):
        return False
    wanted = part(selector, "matchLabels")
    terms = selector.get("matchExpressions") or ()
    return all(labels.get(key) == value for key, value in wanted.items()) and all(_fits(one, labels) for one in terms)


def _fits(term: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value, values = labels.get(str(term.get("key"))), term.get("values") or ()
    match term.get("operator"):
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            return False
