"""A kubelet's PodResources for tests: its answer put together byte by byte, and a real gRPC server that gives it."""

import importlib
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

grpc: Any = importlib.import_module("grpc")  # it has no types
_SERVICE = "v1.PodResourcesLister"

Serve = Callable[[bytes, Any], bytes]


def varint(number: int) -> bytes:
    """Return a number as protobuf spells it."""
    spelled = bytearray()
    while number > 0x7F:
        spelled.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*spelled, number])


def field(number: int, content: bytes | str) -> bytes:
    """Return a field that has a length."""
    raw = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def number_field(number: int, value: int) -> bytes:
    """Return a field that is a number."""
    return varint(number << 3) + varint(value)


def devices(resource: str, *ids: str, numa: int | None = None) -> bytes:
    """Return a ContainerDevices."""
    topology = b"" if numa is None else field(3, field(1, number_field(1, numa)))
    return field(1, resource) + b"".join(field(2, one) for one in ids) + topology


def claim(device: str) -> bytes:
    """Return a DynamicResource: a claim of dynamic resource allocation."""
    resource = field(1, field(1, f"k8s.gpu.nvidia.com/claim={device}")) + field(2, "gpu.nvidia.com")
    return field(2, "claim-1") + field(3, "ml") + field(4, resource + field(3, "node-1") + field(4, device))


def container(name: str, *given: bytes, claims: Sequence[bytes] = ()) -> bytes:
    """Return a ContainerResources, with CPUs of its own and memory as a kubelet with static policies tells them."""
    cpus = field(3, varint(2) + varint(300))
    memory = field(4, field(1, "memory") + number_field(2, 2**40) + field(3, field(1, number_field(1, 1))))
    return (
        field(1, name)
        + b"".join(field(2, one) for one in given)
        + cpus
        + memory
        + b"".join(field(5, c) for c in claims)
    )


def pod(namespace: str, name: str, *containers: bytes) -> bytes:
    """Return a PodResources."""
    return field(1, name) + field(2, namespace) + b"".join(field(3, one) for one in containers)


def answer(*pods: bytes) -> bytes:
    """Return a ListPodResourcesResponse."""
    return b"".join(field(1, one) for one in pods)


@contextmanager
def kubelet(socket: str, serve: Serve) -> Iterator[list[bytes]]:
    """Serve List at a socket while the body runs; yield the requests that came."""
    heard: list[bytes] = []

    def noted(request: bytes, context: Any) -> bytes:
        heard.append(request)
        return serve(request, context)

    handlers = {"List": grpc.unary_unary_rpc_method_handler(noted)}
    with ThreadPoolExecutor(2) as workers:
        server = grpc.server(workers)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, handlers),))
        server.add_insecure_port(f"unix:{socket}")
        server.start()
        try:
            yield heard
        finally:
            server.stop(None).wait()


@contextmanager
def telling(socket: str, *pods: bytes) -> Iterator[list[bytes]]:
    """Serve an answer with these pods."""
    with kubelet(socket, lambda _request, _context: answer(*pods)) as heard:
        yield heard


@contextmanager
def hanging(socket: str) -> Iterator[list[bytes]]:
    """Serve no answer until the body ends."""
    ended = threading.Event()

    def wait(_request: bytes, _context: Any) -> bytes:
        ended.wait()
        return b""

    with kubelet(socket, wait) as heard:
        try:
            yield heard
        finally:
            ended.set()


@contextmanager
def refusing(socket: str, status: str, words: str) -> Iterator[list[bytes]]:
    """Serve a status of gRPC instead of an answer."""

    def refuse(_request: bytes, context: Any) -> bytes:
        context.abort(getattr(grpc.StatusCode, status), words)
        raise AssertionError("it has raised")

    with kubelet(socket, refuse) as heard:
        yield heard
