"""The kinds of objects that gpuward brings, as rows: what each is made of, what people see of it, what must hold."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuward.model.objects.gpu_case import PEOPLE, CaseSpec, CaseStatus
from gpuward.model.objects.gpu_fault import NAME_RULE, FaultSpec, FaultStatus
from gpuward.model.objects.gpu_node import NodeSpec, NodeStatus
from gpuward.model.objects.schema import immutable_rules, schema_of
from gpuward.model.objects.shapes import shape_of
from gpuward.model.objects.standby_pool import OWN_TAINT_RULE, PoolSpec, PoolStatus
from gpuward.model.resource import GPU_CASES, GPU_FAULTS, GPU_NODES, STANDBY_POOLS, Resource

NEVER_CHANGED = {"rule": "self == oldSelf", "message": "a fault stays as it was first told"}


@dataclass(frozen=True, slots=True)
class Column:
    """What `kubectl get` shows of an object; a `wide` one with `-o wide` only. `form` is the API's type for it."""

    name: str
    path: str
    form: str = "string"
    wide: bool = False


@dataclass(frozen=True, slots=True)
class ObjectKind:
    """One kind: its parts, how people may call it, and what is shown and searched of it."""

    resource: Resource
    says: str
    spec: type
    status: type
    short: str
    columns: tuple[Column, ...]
    spec_required: bool = True
    one_writer: bool = True
    """The status is one value of one writer, replaced as a whole: no half of it may be an older one's."""
    spec_rules: tuple[Mapping[str, str], ...] = ()
    rules: tuple[Mapping[str, str], ...] = ()
    searched: tuple[str, ...] = ()
    """What field selectors may ask for, besides the name."""


AGE = Column("Age", ".metadata.creationTimestamp", form="date")

KINDS = (
    ObjectKind(
        resource=GPU_NODES,
        says="A GPU server: what its agent sees and does, and what the controller wants of it.",
        spec=NodeSpec,
        status=NodeStatus,
        short="gpun",
        spec_required=False,
        columns=(
            Column("GPUs", ".status.summary"),
            Column("Mode", ".status.mode"),
            Column("Driver", ".status.driverVersion"),
            Column("Agent", ".status.agentVersion"),
            AGE,
            Column("Boot", ".status.boot", wide=True),
            Column("Trouble", ".status.trouble", wide=True),
        ),
    ),
    ObjectKind(
        resource=GPU_FAULTS,
        says="One trouble of one GPU or node, as its agent first saw it.",
        spec=FaultSpec,
        status=FaultStatus,
        short="gpuf",
        one_writer=False,
        spec_rules=(NEVER_CHANGED,),
        rules=({"rule": NAME_RULE, "message": "the name must be spec.nodeName.boot.cursor, as a whole"},),
        searched=(".spec.nodeName", ".status.judged.level"),
        columns=(
            Column("Node", ".spec.nodeName"),
            Column("GPU", ".spec.gpu"),
            Column("Kind", ".spec.kind"),
            Column("Code", ".spec.code", form="integer"),
            Column("Level", ".spec.level"),
            Column("Class", ".spec.class"),
            Column("Case", ".status.judged.case"),
            AGE,
            Column("Now", ".status.evidence.level", wide=True),
            Column("Title", ".spec.title", wide=True),
            Column("Because", ".status.judged.because", wide=True),
        ),
    ),
    ObjectKind(
        resource=GPU_CASES,
        says="One incident, and the work on it.",
        spec=CaseSpec,
        status=CaseStatus,
        short="gpuc",
        spec_rules=tuple(immutable_rules(shape_of(CaseSpec), but=frozenset({PEOPLE}))),
        searched=(".spec.node", ".status.state"),
        columns=(
            Column("Node", ".spec.node"),
            Column("GPU", ".spec.gpu"),
            Column("Kind", ".spec.kind"),
            Column("Code", ".spec.code", form="integer"),
            Column("Level", ".status.level"),
            Column("State", ".status.state"),
            Column("Since", ".status.since", form="date"),
            AGE,
            Column("Class", ".spec.class", wide=True),
            Column("Drill", ".spec.drill", wide=True),
            Column("Due", ".status.due", wide=True),
            Column("Because", ".status.because", wide=True),
        ),
    ),
    ObjectKind(
        resource=STANDBY_POOLS,
        says="Healthy nodes of one shape that are kept free, to take the place of one that falls ill.",
        spec=PoolSpec,
        status=PoolStatus,
        short="sbp",
        spec_rules=(
            {
                "rule": OWN_TAINT_RULE,
                "message": "taint.key must be the pool's own: Kubernetes or gpuward uses this one for something else",
            },
        ),
        columns=(
            Column("Product", ".spec.shape.product"),
            Column("GPUs", ".spec.shape.count", form="integer"),
            Column("Size", ".spec.size", form="integer"),
            Column("Short", ".status.short", form="integer"),
            AGE,
            Column("Ready", ".status.ready", wide=True),
            Column("Because", ".status.because", wide=True),
        ),
    ),
)
"""Every kind; KIND and CODE stand apart since a code is an Xid or an SXid, or there is none."""


def object_schema(kind: ObjectKind) -> dict[str, Any]:
    """Return the schema of a whole object."""
    spec = schema_of(shape_of(kind.spec)) | _rules(kind.spec_rules)
    status = schema_of(shape_of(kind.status)) | ({"x-kubernetes-map-type": "atomic"} if kind.one_writer else {})
    schema: dict[str, Any] = {
        "type": "object",
        "description": kind.says,
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        },
    }
    return schema | ({"required": ["spec"]} if kind.spec_required else {}) | _rules(kind.rules)


def _rules(rules: tuple[Mapping[str, str], ...]) -> dict[str, Any]:
    return {"x-kubernetes-validations": [dict(rule) for rule in rules]} if rules else {}
