"""A node as a GPU server looks in a cluster: what kubelet, feature discovery and the network write on it, in size too.

What a PATCH of a node costs a server, and reading one a controller, depends on the size of the node. kubelet tells of
50 images at most (its nodeStatusMaxImages), each by digest and by tag.
"""

import hashlib
from typing import Any

GPUS = 8
IMAGES = 50
_FEATURES = (
    *("cpu-cpuid.ADX", "cpu-cpuid.AESNI", "cpu-cpuid.AMXBF16", "cpu-cpuid.AMXINT8", "cpu-cpuid.AMXTILE"),
    *("cpu-cpuid.AVX", "cpu-cpuid.AVX2", "cpu-cpuid.AVX512BF16", "cpu-cpuid.AVX512BITALG", "cpu-cpuid.AVX512BW"),
    *("cpu-cpuid.AVX512CD", "cpu-cpuid.AVX512DQ", "cpu-cpuid.AVX512F", "cpu-cpuid.AVX512FP16", "cpu-cpuid.FMA3"),
    *("cpu-hardware_multithreading", "kernel-config.NO_HZ", "memory-numa", "network-sriov.capable"),
    *("pci-10de.present", "pci-15b3.present", "rdma.available", "rdma.capable", "storage-nonrotationaldisk"),
)
_PRESSURES = (
    ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)
_SINCE = "2026-01-01T00:00:00Z"


def node_of(name: str) -> dict[str, Any]:
    """Return the node without its status."""
    features = {f"feature.node.kubernetes.io/{one}": "true" for one in _FEATURES}
    labels = {
        **features,
        "kubernetes.io/hostname": name,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "gpu-8x",
        "topology.kubernetes.io/region": "r1",
        "topology.kubernetes.io/zone": "r1-a",
        "topology.kubernetes.io/rack": f"r{name[-2:]}",
        "nvidia.com/cuda.driver-version.full": "575.51.02",
        "nvidia.com/cuda.driver-version.major": "575",
        "nvidia.com/cuda.runtime-version.full": "12.9",
        "nvidia.com/gpu.compute.major": "9",
        "nvidia.com/gpu.compute.minor": "0",
        "nvidia.com/gpu.count": str(GPUS),
        "nvidia.com/gpu.family": "hopper",
        "nvidia.com/gpu.memory": "81559",
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
        "nvidia.com/gpu.replicas": "1",
        "nvidia.com/gpu.sharing-strategy": "none",
        "nvidia.com/mig.capable": "true",
        "nvidia.com/mig.strategy": "single",
    }
    annotations = {
        "csi.volume.kubernetes.io/nodeid": f'{{"csi.example.com":"{name}"}}',
        "node.alpha.kubernetes.io/ttl": "0",
        "nfd.node.kubernetes.io/feature-labels": ",".join(_FEATURES),
        "volumes.kubernetes.io/controller-managed-attach-detach": "true",
    }
    spec = {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"], "providerID": f"example://{name}"}
    return {"metadata": {"name": name, "labels": labels, "annotations": annotations}, "spec": spec}


def status_of(name: str) -> dict[str, Any]:
    """Return its status: it is Ready."""
    room = {"cpu": "192", "memory": "2113500Ki", "ephemeral-storage": "14Ti", "nvidia.com/gpu": str(GPUS)}
    found = {
        "architecture": "amd64",
        "bootID": _digest(f"{name} boot")[:36],
        "containerRuntimeVersion": "containerd://2.1.4",
        "kernelVersion": "6.8.0-60-generic",
        "kubeProxyVersion": "",
        "kubeletVersion": "v1.36.3",
        "machineID": _digest(name)[:32],
        "operatingSystem": "linux",
        "osImage": "Ubuntu 24.04.3 LTS",
        "systemUUID": _digest(f"{name} system")[:36],
    }
    return {
        "addresses": [{"type": "InternalIP", "address": "10.1.2.3"}, {"type": "Hostname", "address": name}],
        "allocatable": {**room, "pods": "110"},
        "capacity": {**room, "pods": "110"},
        "conditions": [
            *(_condition(kind, "False", reason, message) for kind, reason, message in _PRESSURES),
            _condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "images": [_image(number) for number in range(IMAGES)],
        "nodeInfo": found,
    }


def _condition(kind: str, status: str, reason: str, message: str) -> dict[str, str]:
    times = {"lastHeartbeatTime": _SINCE, "lastTransitionTime": _SINCE}
    return {"type": kind, "status": status, "reason": reason, "message": message, **times}


def _image(number: int) -> dict[str, Any]:
    repository = f"registry.example.com/team-{number % 7}/training-{number:02d}"
    names = [f"{repository}@sha256:{_digest(repository)}", f"{repository}:v1.{number}.0"]
    return {"names": names, "sizeBytes": 1_000_000_000 + number}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
