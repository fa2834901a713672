"""Our labels on a node: the change that puts one there, and the one that puts back what was before. It patches nothing.

As with taints a label is ours only by our note on the node, which is written in the same patch; what somebody has set
it to since is theirs and stays. Every change is tied to the version of the node that was read.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from gpuward.isolation.clients import GATES
from gpuward.isolation.tainting import Operations, escaped, noted
from gpuward.model.found import part
from gpuward.model.objects.owned import GPUS, GPUS_PRESENT, Label, Owned, read_owned

OURS = GATES | {GPUS}
"""The labels that we may change."""


def label_operations(node: Mapping[str, Any], put: Mapping[str, str], back: Collection[str] = ()) -> Operations:
    """Return the JSON patch that sets these labels, and puts others back; empty: there is nothing to change.

    A label that our note names already is not set again, whatever it says now: who changed it meant it. One that is
    put back is so only where it still says what we set it to. Where somebody has written more around that, as the
    GPU Operator's own pause does, it is left until that is over. Raises ObjectError when our note is broken.
    """
    owned, labels = read_owned(node), part(part(node, "metadata"), "labels")
    new = {key: value for key, value in put.items() if key not in owned.labels and labels.get(key) != value}
    old = {key: owned.labels[key] for key in back if _is_ours(key, owned, labels)}
    if not new and not old:
        return ()
    kept = {key: label for key, label in owned.labels.items() if key not in old}
    now = kept | {key: Label(value, labels.get(key)) for key, value in new.items()}
    version = part(node, "metadata").get("resourceVersion")
    return (
        {"op": "test", "path": "/metadata/resourceVersion", "value": version},
        *_set(labels, new),
        *_put_back(labels, old),
        *noted(node, replace(owned, labels=now)),
    )


def presence_operations(node: Mapping[str, Any]) -> Operations:
    """Return the JSON patch that notes a node for one with GPUs, so that its agent stays when they vanish."""
    return label_operations(node, {GPUS: GPUS_PRESENT})


def _is_ours(key: str, owned: Owned, labels: Mapping[str, Any]) -> bool:
    """Return whether a label may be put back, or forgotten: our note names it, and nobody has written around ours."""
    label, now = owned.labels.get(key), str(labels.get(key, ""))
    return label is not None and (now == label.value or label.value not in now)


def _set(labels: Mapping[str, Any], new: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
    if labels or not new:
        yield from ({"op": "add", "path": _path(key), "value": value} for key, value in new.items())
    else:
        yield {"op": "add", "path": "/metadata/labels", "value": dict(new)}


def _put_back(labels: Mapping[str, Any], old: Mapping[str, Label]) -> Iterator[Mapping[str, Any]]:
    for key, label in old.items():
        if labels.get(key) != label.value:
            continue
        if label.former is None:
            yield {"op": "remove", "path": _path(key)}
        else:
            yield {"op": "replace", "path": _path(key), "value": label.former}


def _path(key: str) -> str:
    return f"/metadata/labels/{escaped(key)}"
