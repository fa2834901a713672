"""What the API server does with each kind, as rows. The work itself is in server.py, more about pods in pods.py.

Every row was tried on a real API server, version 1.36.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from gpuward.model.objects.kinds import KINDS as BROUGHT
from gpuward.model.resource import (
    CONFIG_MAPS,
    DAEMON_SETS,
    DISRUPTION_BUDGETS,
    EVENTS,
    JOBS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    Resource,
)

Path = tuple[str, ...]


class Status(StrEnum):
    """What becomes of a status that a CREATE brings."""

    NONE = "none"
    """The kind has no status of its own: what stands there is a field like any other."""
    DROPPED = "dropped"
    KEPT = "kept"
    """A kubelet makes its Node with its status."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How one kind is kept."""

    native: bool = True
    """Known to the server itself: empty fields are left out, and a status patch may change labels and annotations."""
    status: Status = Status.DROPPED
    first_status: Mapping[str, Any] = field(default_factory=dict)
    """The status of a new object, where the server writes one."""
    counted: bool = True
    """Has `metadata.generation`, which counts changes to the spec."""
    fields: Mapping[str, str] = field(default_factory=dict)
    """What a field selector may name, beside the name and the namespace, and the value where it is not set."""
    immutable: tuple[Path, ...] = ()
    """What stays as it was made."""
    dotted: bool = True
    """The name may have dots."""

    @property
    def has_status(self) -> bool:
        """Return whether the status is a subresource."""
        return self.status is not Status.NONE


_EVENT_IMMUTABLE = "regarding related reason note type action eventTime reportingController reportingInstance"

KINDS: Mapping[Resource, Kind] = {
    NODES: Kind(status=Status.KEPT, counted=False, fields={"spec.unschedulable": "false"}),
    PODS: Kind(
        first_status={"phase": "Pending", "qosClass": "BestEffort"},
        fields={
            "spec.nodeName": "",
            "spec.restartPolicy": "",
            "spec.schedulerName": "",
            "spec.serviceAccountName": "",
            "spec.hostNetwork": "false",
            "status.phase": "",
            "status.podIP": "",
            "status.nominatedNodeName": "",
        },
    ),
    NAMESPACES: Kind(first_status={"phase": "Active"}, counted=False, fields={"status.phase": ""}, dotted=False),
    EVENTS: Kind(
        status=Status.NONE,
        counted=False,
        fields={
            "reason": "",
            "type": "",
            "reportingController": "",
            "regarding.kind": "",
            "regarding.namespace": "",
            "regarding.name": "",
            "regarding.uid": "",
            "regarding.apiVersion": "",
            "regarding.resourceVersion": "",
            "regarding.fieldPath": "",
        },
        immutable=tuple((name,) for name in _EVENT_IMMUTABLE.split()),
    ),
    LEASES: Kind(status=Status.NONE, counted=False),
    CONFIG_MAPS: Kind(status=Status.NONE, counted=False),
    DISRUPTION_BUDGETS: Kind(
        first_status=dict.fromkeys(("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"), 0)
    ),
    DAEMON_SETS: Kind(
        first_status=dict.fromkeys(
            ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"), 0
        ),
        immutable=(("spec", "selector"),),
    ),
    JOBS: Kind(
        fields={"status.successful": "0"},
        immutable=(("spec", "selector"), ("spec", "template"), ("spec", "completions"), ("spec", "completionMode")),
    ),
}
CUSTOM = Kind(native=False)
"""A kind that a CRD brought, with a status subresource."""
_OURS = {
    kind.resource: Kind(native=False, fields={path.removeprefix("."): "" for path in kind.searched}) for kind in BROUGHT
}
_ROWS = {**_OURS, **KINDS}


def kind_of(resource: Resource) -> Kind:
    """Return the row of a kind."""
    return _ROWS.get(resource, CUSTOM)


def at(value: Any, path: Path) -> Any:
    """Return what stands at a path, None when nothing does."""
    for key in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value
