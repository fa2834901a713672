"""A pretend fleet on which the GPU Operator's programs run: DaemonSets by labels of the node, whose pods hold GPUs."""

from dataclasses import replace
from typing import Any

from gpuward.isolation.clients import GATES
from gpuward.model.objects.gpu_node import NodeGpu, PodHold
from gpuward.model.objects.owned import FAULT_TAINT
from gpuward.model.pod import pod_of
from gpuward.model.resource import DAEMON_SETS, GPU_CASES, NODES, PODS
from gpuward.sim.cluster.daemons import place_daemons
from tests.controller.fleet import Fleet, PretendAgent
from tests.kit.merging import GPU_A

DCGM = "nvidia.com/gpu.deploy.dcgm"
PLUGIN = "nvidia.com/gpu.deploy.device-plugin"
TOLERANT = ({"key": FAULT_TAINT, "operator": "Exists"},)
NOT_READY = "node.kubernetes.io/not-ready"
"""What the API server puts on a new node, until its controllers see it ready."""
TRUE = dict.fromkeys(sorted(GATES), "true")


class OperatedFleet(Fleet):
    """Its DaemonSets' pods come and go with labels and taints; those that are not `quiet` hold the first GPU."""

    quiet: frozenset[str] = frozenset()
    is_operated = True
    """False: the DaemonSet controller does nothing for now."""

    def operated(self, name: str, *, labels: dict[str, str] | None = None) -> PretendAgent:
        """Make a node on which the GPU Operator wants its programs."""
        agent = self.node(name)
        taints = [one for one in self.get(NODES, name)["spec"]["taints"] if one["key"] != NOT_READY]
        self.server.patch(NODES, name, [{"op": "replace", "path": "/spec/taints", "value": taints}])
        for key, value in (TRUE if labels is None else labels).items():
            self.label(name, key, value)
        return agent

    def daemon(self, name: str, *, gate: str = "", tolerations: Any = TOLERANT) -> None:
        """Make a DaemonSet; its pods run at once."""
        chosen = {gate: "true"} if gate else {"gpuward.io/gpus": "present"}
        pod = {"nodeSelector": chosen, "tolerations": list(tolerations), "containers": [{"name": "c"}]}
        template = {"metadata": {"labels": {"app": name}}, "spec": pod}
        spec = {"selector": {"matchLabels": {"app": name}}, "template": template}
        self.server.create(DAEMON_SETS, {"metadata": {"name": name}, "spec": spec}, namespace="work")
        self.move()

    def move(self) -> None:
        """Let all of them do what is due."""
        super().move()
        if self.is_operated:
            place_daemons(self.server)

    def programs(self, node: str = "gpu-1") -> list[str]:
        """Return the DaemonSets that have a pod on a node which is not ending."""
        pods = (pod_of(one) for one in self.server.list(PODS, fields=f"spec.nodeName={node}").items)
        return sorted(pod.owner.name for pod in pods if pod.owner is not None and not pod.ending)

    def gates(self, node: str = "gpu-1") -> dict[str, str]:
        """Return what the labels of a node say about the GPU Operator's programs."""
        return {key: value for key, value in self.get(NODES, node)["metadata"]["labels"].items() if key in GATES}

    def formers(self, case: str) -> dict[str, str]:
        """Return the labels that a case has written down."""
        status = self.get(GPU_CASES, case).get("status") or {}
        return {one["label"]: one["value"] for one in status.get("formers", ())}

    def _holding(self, node: str) -> list[PodHold]:
        pods = (pod_of(one) for one in self.server.list(PODS, fields=f"spec.nodeName={node}").items)
        return [
            PodHold(f"{pod.name} (pid 7)", pod.uid)
            for pod in pods
            if pod.owner is not None and pod.owner.kind == "DaemonSet" and pod.owner.name not in self.quiet
        ]

    def _work_on(self, node: str) -> tuple[str, ...]:
        return (*super()._work_on(node), *(one.words for one in self._holding(node)))

    def _gpu(self, agent: PretendAgent, pci: str, held: tuple[str, ...]) -> NodeGpu:
        gpu = super()._gpu(agent, pci, held)
        return replace(gpu, holds=tuple(self._holding(agent.node))) if pci == GPU_A else gpu
