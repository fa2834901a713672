"""The child that asks the kubelet which pod has which device, says it in one JSON line, and ends.

`podresources` starts it with `python -m gpuward.adapters.podresources_child SOCKET SECONDS`. gRPC is loaded here and
nowhere else: it would be a third of the agent's memory, and has threads of its own.
"""

import importlib
import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from gpuward.adapters.podresources_wire import WireError, read_grants

NO_GRPC = (
    "the package grpcio is not installed, so nobody can ask the kubelet which pod has which GPU: install "
    "gpuward[cluster]; until then pods are known by the processes that hold a GPU only"
)
_LIST = "/v1.PodResourcesLister/List"
_VENDOR = "nvidia.com/"
_OPTIONS = (
    ("grpc.max_receive_message_length", 16 * 1024 * 1024),  # the largest that a kubelet sends
    ("grpc.default_authority", "localhost"),  # servers in Go refuse the socket's path as one
    ("grpc.enable_http_proxy", 0),
)
_REMEDIES = {
    "UNAVAILABLE": ("unreachable", "see whether it runs"),
    "DEADLINE_EXCEEDED": ("unreachable", "see whether it hangs"),
    "RESOURCE_EXHAUSTED": ("unreachable", "it was asked too often, or has too much to tell"),
    "UNIMPLEMENTED": ("refused", "it is older than Kubernetes 1.20: update it"),
    "PERMISSION_DENIED": ("refused", "let this user ask it"),
    "UNAUTHENTICATED": ("refused", "let this user ask it"),
}
"""What a status of gRPC means here: whether to ask again, and what helps."""
_OTHERWISE = ("unreachable", "see its log")
_LONGEST_WORDS = 200

Answer = Mapping[str, Any]


def asked(grpc: Any, socket: str, seconds: float) -> Answer:
    """Return the grants that the kubelet at this socket tells, or why there are none."""
    with grpc.insecure_channel(f"unix:{socket}", options=_OPTIONS) as channel:
        try:
            raw = channel.unary_unary(_LIST)(b"", timeout=seconds)
        except grpc.RpcError as error:
            return _trouble(error.code().name, error.details() or "", socket)
    try:
        return {"grants": read_grants(raw, _VENDOR)}
    except WireError as error:
        return {"refused": f"the kubelet's answer at {socket} cannot be read: {error}; see what serves that socket"}


def _trouble(status: str, words: str, socket: str) -> Answer:
    kind, remedy = _REMEDIES.get(status, _OTHERWISE)
    said = " ".join(words.split())[:_LONGEST_WORDS]
    return {kind: f"the kubelet at {socket} answers {status} ({said}); {remedy}"}


def main() -> None:
    """Answer on standard output, where nothing else may come."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    socket, seconds = sys.argv[1:]
    try:
        grpc = importlib.import_module("grpc")
    except ImportError:
        answer: Answer = {"refused": NO_GRPC}
    else:
        answer = asked(grpc, socket, float(seconds))
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
