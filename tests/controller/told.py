"""What the agent of a server with one GPU tells on the real API server."""

from typing import Any

from gpuward.model.case import Mode
from gpuward.model.objects.gpu_node import GpuState, Health, NodeGpu, NodeStatus, OrderAnswer
from gpuward.model.scene import GpuSight
from tests.controller.fleet import uuid_of
from tests.kit.merging import GPU_A


def one_gpu(answers: tuple[OrderAnswer, ...], **more: Any) -> NodeStatus:
    """Return its status: the GPU is free and well, the orders are answered; `more` is told of the GPU."""
    gpu = NodeGpu(
        pci=GPU_A,
        state=GpuState.ACTIVE,
        health=Health.HEALTHY,
        sight=GpuSight(present=True, lost=False, work=(), display=False),
        uuid=uuid_of(GPU_A),
        **more,
    )
    return NodeStatus(agent_version="1", boot="b1", mode=Mode.REPAIR, gpus=(gpu,), orders=answers)
