"""The work of a pretend fleet: jobs that make pods anew, a scheduler that finds them nodes, kubelets that run them.

They do what their namesakes do as far as our work leans on it. Nothing of the product is here.
"""

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gpuward.model.job import JOB
from gpuward.model.objects.owned import CHECKPOINT
from gpuward.model.pod import PodSight, pod_of
from gpuward.model.resource import DISRUPTION_BUDGETS, JOBS, NODES, PODS
from gpuward.ports import EdgeError, Object
from gpuward.sim.cluster.server import Server
from gpuward.sim.fleet.ailments import Work
from gpuward.sim.fleet.machine import Machine, Process

NAMESPACE = "work"
_START_SECONDS = (1.0, 4.0)
_BACK_OFF_SECONDS = 10.0
"""How long a Job waits before it replaces a pod that has failed (batch/v1, first back-off)."""
_END_SECONDS = (0.5, 6.0)
_UNREACHABLE = "node.kubernetes.io/unreachable"
_BY_READINESS = frozenset({_UNREACHABLE, "node.kubernetes.io/not-ready"})
_NO_SCHEDULE = frozenset({"NoSchedule", "NoExecute"})


@dataclass(frozen=True, slots=True)
class Workload:
    """One job, or one deployment: so many pods with so many GPUs each. `serves`: a budget keeps all but one there.

    A pod ends by itself after `run_seconds`, from and to, and another comes: a job goes on, a deployment is rolled out.
    """

    name: str
    replicas: int
    gpus: int
    serves: bool = False
    grace_seconds: int = 30
    run_seconds: tuple[float, float] = (86_400.0, 864_000.0)
    asks: bool = False
    """It is a job that asked to be told before it is evicted."""


class Owners:
    """Implements what Job and ReplicaSet controllers do: a pod that has ended, or is ending, is replaced."""

    def __init__(self, server: Server, workloads: Iterable[Workload]) -> None:
        self._server = server
        self._held: dict[tuple[str, int], asyncio.TimerHandle] = {}
        """Pods that have failed, by job and index: another is made after the back-off."""
        self._references: dict[str, tuple[Workload, dict[str, Any]]] = {}
        self.made: dict[str, int] = {}
        """By workload, how many pods were made for it."""
        for one in workloads:
            self._references[one.name] = (one, self._owner(one))

    def keep_up(self) -> None:
        """Make the pods that are missing, and take away those that have ended."""
        there: dict[str, set[int]] = {name: set() for name in self._references}
        for found in self._server.list(PODS, namespace=NAMESPACE, labels="app").items:
            metadata = found["metadata"]
            labels = metadata["labels"]
            phase = (found.get("status") or {}).get("phase")
            if phase in {"Succeeded", "Failed"}:
                self._server.delete(PODS, metadata["name"], namespace=NAMESPACE, grace_seconds=0)
                if phase == "Failed":
                    self._hold(labels["app"], int(labels["index"]))
            elif "deletionTimestamp" not in metadata and labels["app"] in there:
                there[labels["app"]].add(int(labels["index"]))
        for name, (workload, owner) in self._references.items():
            for index in range(workload.replicas):
                if index not in there[name] and (name, index) not in self._held:
                    self._make(workload, owner, index)

    def _hold(self, name: str, index: int) -> None:
        def again() -> None:
            self._held.pop((name, index), None)
            self.keep_up()

        if (name, index) not in self._held:
            self._held[name, index] = asyncio.get_running_loop().call_later(_BACK_OFF_SECONDS, again)

    def _owner(self, one: Workload) -> dict[str, Any]:
        if one.serves:
            spec = {"minAvailable": max(1, one.replicas - 1), "selector": {"matchLabels": {"app": one.name}}}
            body = {"metadata": {"name": one.name}, "spec": spec}
            self._server.create(DISRUPTION_BUDGETS, body, namespace=NAMESPACE)
            uid = self._server.state.new_uid()
            return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": one.name, "uid": uid, "controller": True}
        made = self._server.create(JOBS, {"metadata": {"name": one.name}, "spec": {}}, namespace=NAMESPACE)
        uid = made["metadata"]["uid"]
        return {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "name": one.name, "uid": uid, "controller": True}

    def _make(self, one: Workload, owner: Mapping[str, Any], index: int) -> None:
        metadata = {
            "generateName": f"{one.name}-{index}-",
            "labels": {"app": one.name, "index": str(index), **_labels(one)},
            "ownerReferences": [dict(owner)],
        }
        container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": one.gpus}}}
        spec = {
            "containers": [container],
            "restartPolicy": "Always" if one.serves else "Never",
            "terminationGracePeriodSeconds": one.grace_seconds,
        }
        self._server.create(PODS, {"metadata": metadata, "spec": spec}, namespace=NAMESPACE)
        self.made[one.name] = self.made.get(one.name, 0) + 1


def _labels(one: Workload) -> dict[str, str]:
    """Return the labels that a Job's controller puts on its pods, and that by which the job asks to be told."""
    return ({} if one.serves else {JOB.label: one.name}) | ({CHECKPOINT: "true"} if one.asks else {})


def schedule(server: Server, capacity: Mapping[str, int]) -> None:
    """Put each pod that waits onto the node that fits best; one that fits nowhere goes on waiting."""
    waiting = server.list(PODS, fields="spec.nodeName=", project=dict).items
    if not waiting:
        return
    free = dict(capacity)
    for pod in server.list(PODS, project=pod_of).items:
        if pod.node in free and not pod.ended:
            free[pod.node] -= pod.gpus
    nodes = [(found["metadata"]["name"], found) for found in server.list(NODES).items]
    for found in waiting:
        pod = pod_of(found)
        fits = [
            (free[name], name)
            for name, node in nodes
            if free.get(name, 0) >= pod.gpus and _may_go(node, found["spec"].get("tolerations") or ())
        ]
        if fits and not pod.ending:
            _, name = min(fits)  # the fullest: whole nodes stay free for whole-node pods
            server.bind(pod.namespace, pod.name, name)
            free[name] -= pod.gpus


def set_ready(server: Server, name: str, status: str) -> None:
    """Write a node's Ready condition, and the taint that the node controller keeps by it; what others wrote stays."""
    found = server.get(NODES, name)
    if found is None:
        return
    conditions = [one for one in (found.get("status") or {}).get("conditions") or () if one.get("type") != "Ready"]
    conditions.append({"type": "Ready", "status": status})
    value = {**(found.get("status") or {}), "conditions": conditions}
    server.patch(NODES, name, [{"op": "add", "path": "/status", "value": value}], subresource="status")
    taints = [one for one in (found.get("spec") or {}).get("taints") or () if one.get("key") not in _BY_READINESS]
    if status != "True":
        taints.append({"key": _UNREACHABLE, "effect": "NoSchedule"})
    server.patch(NODES, name, [{"op": "add", "path": "/spec/taints", "value": taints}])


def _may_go(node: Object, tolerations: Iterable[Mapping[str, Any]]) -> bool:
    spec = node.get("spec") or {}
    if spec.get("unschedulable") or not _is_ready(node):
        return False
    taints = [one for one in spec.get("taints") or () if one.get("effect") in _NO_SCHEDULE]
    return all(any(_tolerates(toleration, taint) for toleration in tolerations) for taint in taints)


def _is_ready(node: Object) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if toleration.get("effect") not in {None, "", taint["effect"]}:
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in {None, "", taint["key"]}
    return bool(toleration.get("key") == taint["key"] and toleration.get("value", "") == taint.get("value", ""))


class Kubelets:
    """The kubelets of all machines: pods come up with their processes on the cards, and end within their grace."""

    def __init__(
        self,
        server: Server,
        machines: Mapping[str, Machine],
        workloads: Iterable[Workload],
        *,
        dice: random.Random,
        later: Callable[[float, Callable[[], None]], None],
    ) -> None:
        self._server = server
        self._machines = machines
        self._run_seconds = {one.name: one.run_seconds for one in workloads}
        self._dice = dice
        self._later_on = later
        self._timers: dict[str, asyncio.TimerHandle] = {}
        """By pod UID, the one thing that will happen to it next."""
        self._cards: dict[str, tuple[str, tuple[int, ...]]] = {}
        """By pod UID, where it runs: machine and cards."""
        self._pids = 1000

    @property
    def is_quiet(self) -> bool:
        """Whether no pod is coming or going."""
        return not self._timers

    def mind(self, pods: Iterable[PodSight]) -> None:
        """Take up what is due for pods as they are now."""
        for pod in pods:
            machine = self._machines.get(pod.node)
            if machine is None or pod.uid in self._timers or not (machine.is_on and machine.is_reachable):
                continue
            if pod.ending:
                self._end_in(pod, self._ending_seconds(pod))
            elif pod.phase == "Pending":
                self._later(pod.uid, self._dice.uniform(*_START_SECONDS), lambda pod=pod: self._run(pod))  # type: ignore[misc]

    def hit(self, node: str, pci: str, work: Work) -> None:
        """Let what holds a card die or hang."""
        machine = self._machines[node]
        index = machine.cards[pci].index
        held = machine.processes[index]
        if work is Work.HANGS:
            held[:] = [Process(one.pid, one.name, one.pod, hangs=True) for one in held]
        elif work is Work.DIES:
            for one in list(held):
                self._fail(one.pod)

    def forget(self, node: str) -> None:
        """Let the pods of a machine that went off be without their processes; they start again when it is back."""
        for uid, (where, _) in list(self._cards.items()):
            if where == node:
                del self._cards[uid]
                self._drop_timer(uid)

    def resume(self, node: str) -> None:
        """Take up the pods of a machine that is back: a Job's that lost its processes has failed, others start anew."""
        for found in self._server.list(PODS, fields=f"spec.nodeName={node}", project=dict).items:
            pod = pod_of(found)
            if pod.phase == "Running" and pod.uid not in self._cards and not pod.ending:
                if found["spec"].get("restartPolicy") == "Never":
                    self._write_status(pod, {"phase": "Failed", "reason": "NodeLost"})
                else:
                    self._later(pod.uid, self._dice.uniform(*_START_SECONDS), lambda pod=pod: self._run(pod))  # type: ignore[misc]
            else:
                self.mind([pod])

    def _run(self, pod: PodSight) -> None:
        machine = self._machines[pod.node]
        found = self._server.get(PODS, pod.name, namespace=pod.namespace)
        if found is None or found["metadata"]["uid"] != pod.uid or not machine.is_on:
            return
        if "deletionTimestamp" in found["metadata"]:
            self._end(pod)
            return
        free = [card.index for card in machine.cards.values() if not (machine.processes[card.index] or card.drained)]
        if len(free) < pod.gpus:
            self._write_status(pod, {"phase": "Failed", "reason": "UnexpectedAdmissionError"})
            return
        indexes = tuple(free[: pod.gpus])
        for index in indexes:
            self._pids += 1
            machine.processes[index].append(Process(self._pids, pod.labels.get("app", "work"), pod.uid))
        self._cards[pod.uid] = (pod.node, indexes)
        span = self._run_seconds.get(pod.labels.get("app", ""))
        if span is not None:
            self._later_on(self._dice.uniform(*span), lambda: self._finish(pod))
        self._write_status(pod, {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})

    def _ending_seconds(self, pod: PodSight) -> float:
        node, indexes = self._cards.get(pod.uid, (pod.node, ()))
        machine = self._machines[node]
        hangs = any(one.hangs for index in indexes for one in machine.processes[index] if one.pod == pod.uid)
        found = self._server.get(PODS, pod.name, namespace=pod.namespace)
        grace = 0.0 if found is None else float(found["metadata"].get("deletionGracePeriodSeconds") or 0)
        return grace if hangs else min(grace, self._dice.uniform(*_END_SECONDS))

    def _end_in(self, pod: PodSight, seconds: float) -> None:
        self._later(pod.uid, seconds, lambda: self._end(pod))

    def _end(self, pod: PodSight) -> None:
        if not self._machines[pod.node].is_on:
            return
        self._let_go(pod.uid)
        self._server.delete(PODS, pod.name, namespace=pod.namespace, uid=pod.uid, grace_seconds=0)

    def _finish(self, pod: PodSight) -> None:
        """Let a pod that still runs end by itself; a deployment's is rolled out."""
        machine = self._machines[pod.node]
        found = self._server.get(PODS, pod.name, namespace=pod.namespace)
        if found is None or pod.uid not in self._cards or not (machine.is_on and machine.is_reachable):
            return
        if found["spec"].get("restartPolicy") == "Never":
            self._let_go(pod.uid)
            self._write_status(pod, {"phase": "Succeeded"})
        else:
            self._server.delete(PODS, pod.name, namespace=pod.namespace, uid=pod.uid)

    def _fail(self, uid: str) -> None:
        self._let_go(uid)
        for found in self._server.list(PODS, project=dict).items:
            if found["metadata"]["uid"] == uid:
                self._write_status(pod_of(found), {"phase": "Failed", "reason": "Error"})

    def _let_go(self, uid: str) -> None:
        self._drop_timer(uid)
        node, indexes = self._cards.pop(uid, ("", ()))
        for index in indexes:
            held = self._machines[node].processes[index]
            held[:] = [one for one in held if one.pod != uid]

    def _write_status(self, pod: PodSight, status: Mapping[str, Any]) -> None:
        operation = {"op": "add", "path": "/status", "value": dict(status)}
        try:
            self._server.patch(PODS, pod.name, [operation], namespace=pod.namespace, subresource="status")
        except EdgeError:
            return  # it is gone

    def _later(self, uid: str, seconds: float, act: Callable[[], None]) -> None:
        def do() -> None:
            self._timers.pop(uid, None)
            act()

        self._timers[uid] = asyncio.get_running_loop().call_later(seconds, do)

    def _drop_timer(self, uid: str) -> None:
        timer = self._timers.pop(uid, None)
        if timer is not None:
            timer.cancel()


class Following:
    """Calls back, soon and once, after any of some kinds changed on the server."""

    def __init__(self, server: Server, kinds: Iterable[Any], act: Callable[[], None]) -> None:
        self._act = act
        self._due = False
        since = str(server.state.version)
        self._watchers = [server.watch(kind, since=since, ring=self._ring) for kind in kinds]

    def _ring(self) -> None:
        for watcher in self._watchers:
            watcher.waiting.clear()
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self._do)

    def _do(self) -> None:
        self._due = False
        self._act()
