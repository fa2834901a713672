"""Events on the node, the pods and the jobs of a case: each made once, by a name that follows from what it tells."""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

from gpuward.controller.gather import Picture
from gpuward.controller.heed import DEFECT
from gpuward.controller.outcomes import is_open
from gpuward.controller.pace import Pace
from gpuward.isolation.announcing import Announcement, Subject, announcements
from gpuward.model.objects.gpu_case import GpuCase, as_case
from gpuward.model.resource import EVENTS, GPU_CASES, RESOURCES
from gpuward.ports import Cluster, Conflict, Refused

MOST_WAITING = 4096
"""So many events wait to be sent; the oldest are dropped."""
MOST_OF_A_CASE = 192
"""So many events one case makes at most, in the life of a controller."""
FRESH_SECONDS = 600.0
"""What is older is not told any more: the API server forgets events after an hour, and nothing is news twice."""
REPORTER = "gpuward.io/controller"
INSTANCE = "gpuward-controller"
"""Of every replica the same, for they are to make the same events."""
NODE_EVENTS = "default"
"""The namespace for events of what has none; the API server asks for it."""
_VERSIONS = {one.kind: one.api_version for one in RESOURCES} | {
    "JobSet": "jobset.x-k8s.io/v1alpha2",
    "PyTorchJob": "kubeflow.org/v1",
    "TrainJob": "trainer.kubeflow.org/v1alpha1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
}
"""The version of what an event may be about; of another kind none is named, and kubectl finds it all the same."""
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class Draft:
    """An event that waits to be sent."""

    namespace: str
    body: Mapping[str, Any]
    count: int


class Events:
    """What is to be told, and what was. `dropped`: how many were never sent, for others waited before them."""

    def __init__(self, cluster: Cluster, picture: Picture, *, pace: Pace) -> None:
        self.dropped = 0
        self.written = 0
        self._cluster = cluster
        self._picture = picture
        self._pace = pace
        self._waiting: deque[Draft] = deque()
        self._told: dict[str, dict[str, int]] = {}

    def look(self, changed: Iterable[str]) -> list[str]:
        """See what there is to tell of the cases that have changed; return of which it failed, in sentences."""
        troubles: list[str] = []
        for name in sorted(changed):
            case = self._picture.cases.objects.get(name)
            try:
                if case is None:
                    self._told.pop(name, None)
                elif not self._is_long_over(case):
                    self._look(case)
            except Exception as error:  # noqa: BLE001  whatever others wrote in it, it is one case of many
                troubles.append(f"nothing can be told of the case {name}: {DEFECT}: {error!r}")
        return troubles

    def next(self) -> Draft | None:
        """Take the oldest event that waits; None when none does."""
        return self._waiting.popleft() if self._waiting else None

    def back(self, draft: Draft) -> None:
        """Put an event back that could not be sent now."""
        if len(self._waiting) < MOST_WAITING:
            self._waiting.appendleft(draft)
        else:
            self.dropped += 1

    async def send(self, draft: Draft) -> str:
        """Send an event; return why it is refused, empty when it is not. Raises Unreachable."""
        name = draft.body["metadata"]["name"]
        try:
            try:
                await self._cluster.create(EVENTS, draft.body, namespace=draft.namespace)
            except Conflict:
                await self._again(name, draft)
        except Conflict:
            return ""  # it has expired, or its namespace is gone: nobody looks there any more
        except Refused as error:
            return f"an event on {draft.body['regarding']['kind']}s cannot be written: {error}"
        self.written += 1
        return ""

    async def _again(self, name: str, draft: Draft) -> None:
        """Raise the count of an event that is there; what was told once only is told."""
        if draft.count > 1:
            series = {"op": "add", "path": "/series", "value": draft.body["series"]}
            await self._cluster.patch(EVENTS, name, (series,), namespace=draft.namespace)

    def _is_long_over(self, case: GpuCase) -> bool:
        """Return whether nothing came to a case that has ended for so long; of most it is so when one starts."""
        seen, timeline = as_case(case), () if case.status is None else case.status.timeline
        newest = max([seen.since, *(one.at for one in timeline[-1:])])
        return not is_open(seen) and newest < self._pace.clock.now() - FRESH_SECONDS

    def _look(self, case: GpuCase) -> None:
        view = self._picture.gpu_nodes.objects.get(case.spec.node)
        indexes = {} if view is None else {gpu.pci: gpu.index for gpu in view.gpus}
        told, since = self._told.setdefault(case.head.name, {}), self._pace.clock.now() - FRESH_SECONDS
        for one in announcements(case, self._picture.faults.objects.get(case.spec.fault), indexes):
            subject = one.subject or self._node(case.spec.node)
            if one.at < since or subject is None:
                continue
            name = _name_of(case, one, subject)
            if told.get(name, 0) >= one.count or (name not in told and len(told) >= MOST_OF_A_CASE):
                continue
            told[name] = one.count
            self._wait(Draft(subject.namespace or NODE_EVENTS, _body(name, case, one, subject=subject), one.count))
        if not told:
            del self._told[case.head.name]

    def _node(self, name: str) -> Subject | None:
        node = self._picture.nodes.objects.get(name)
        return None if node is None else Subject("Node", "", name, node.uid)

    def _wait(self, draft: Draft) -> None:
        if len(self._waiting) >= MOST_WAITING:
            self._waiting.popleft()
            self.dropped += 1
        self._waiting.append(draft)


def _name_of(case: GpuCase, one: Announcement, subject: Subject) -> str:
    """Return the name of an event: the same for the same step of a case on the same object, whoever makes it."""
    words = f"{'' if one.shared else case.head.name}\n{one.words.reason}\n{subject.uid}\n{one.key}"
    digest = blake2b(words.encode(), digest_size=8).hexdigest()
    return f"{subject.name[:_LONGEST].rstrip('.-')}.{digest}"


def _body(name: str, case: GpuCase, one: Announcement, *, subject: Subject) -> dict[str, Any]:
    regarding = {"kind": subject.kind, "name": subject.name, "uid": subject.uid}
    regarding |= {"namespace": subject.namespace} if subject.namespace else {}
    version = subject.api_version or _VERSIONS.get(subject.kind, "")
    regarding |= {"apiVersion": version} if version else {}
    regarding = {key: value for key, value in regarding.items() if value}
    related = {"apiVersion": GPU_CASES.api_version, "kind": GPU_CASES.kind, "name": case.head.name}
    stamp = f"{datetime.fromtimestamp(one.at, UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
    body: dict[str, Any] = {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "metadata": {"name": name, "namespace": subject.namespace or NODE_EVENTS},
        "eventTime": stamp,
        "reportingController": REPORTER,
        "reportingInstance": INSTANCE,
        "action": one.words.action,
        "reason": one.words.reason,
        "regarding": regarding,
        "related": related | ({"uid": case.head.uid} if case.head.uid else {}),
        "note": one.note,
        "type": "Warning" if one.words.warns else "Normal",
    }
    return body | ({"series": {"count": one.count, "lastObservedTime": stamp}} if one.count > 1 else {})
