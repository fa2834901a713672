"""What passes between the loop of the node, in one thread, and that of the cluster, in another.

Nothing else is shared by them: two queues of frozen words, and a bell that each side may ring for the other's sake.
"""

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from gpuward.agent.lone import Contact
from gpuward.model.case import Mode
from gpuward.model.objects.gpu_node import GpuOrder

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Parcel:
    """A fault to be told: its object, how it stands now if that has changed, and whose GPU it was once that is known.

    `number` tells its versions apart.

    Without a body the object was accepted before: it may have been pruned since, and is not made again.
    """

    name: str
    number: int
    level: int
    body: Mapping[str, Any] | None
    evidence: Mapping[str, Any] | None = None
    pods: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """The status of the node's object, whole; `urgent`: with an answer or a fault that is new."""

    status: Mapping[str, Any]
    urgent: bool = False


@dataclass(frozen=True, slots=True)
class Worry:
    """Whether a GPU waits for an order that may never come: the leader is looked at more often then."""

    worried: bool


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the controller wants of the node, as its object says it."""

    mode: Mode = Mode.OBSERVE
    orders: tuple[GpuOrder, ...] = ()
    held: str = ""


@dataclass(frozen=True, slots=True)
class Receipt:
    """The API server has a version of a fault, or will never take it: then `refusal` says why."""

    name: str
    number: int
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class Complaint:
    """What a person should know of the cluster, in a sentence."""

    sentence: str


ToCluster = Parcel | Report | Worry
ToNode = Wanted | Receipt | Contact | Complaint


class Post:
    """Two queues. `send` and `heard` are the node's, `tell`, `collected` and `answer` the cluster's."""

    def __init__(self) -> None:
        self._to_cluster: SimpleQueue[ToCluster] = SimpleQueue()
        self._to_node: SimpleQueue[ToNode] = SimpleQueue()
        self._ring: Callable[[], object] = lambda: None
        self._ring_node: Callable[[], object] = lambda: None

    def send(self, word: ToCluster) -> None:
        """Hand a word to the cluster's side, and wake it."""
        self._to_cluster.put(word)
        with contextlib.suppress(RuntimeError):  # its loop has ended
            self._ring()

    def heard(self) -> list[ToNode]:
        """Return what the cluster's side told since the last call."""
        return _all(self._to_node)

    def answer(self, ring: Callable[[], object]) -> None:
        """Let `ring`, which any thread may call, wake the cluster's side."""
        self._ring = ring

    def tell(self, word: ToNode) -> None:
        """Hand a word to the node's side; it looks by itself, and is woken where it asked for that."""
        self._to_node.put(word)
        self._ring_node()

    def listen(self, ring: Callable[[], object]) -> None:
        """Let `ring` wake the node's side, which then need not look every second."""
        self._ring_node = ring

    def collected(self) -> list[ToCluster]:
        """Return what the node's side sent since the last call."""
        return _all(self._to_cluster)


def _all(queue: "SimpleQueue[_T]") -> list[_T]:
    words: list[_T] = []
    with contextlib.suppress(Empty):
        while True:
            words.append(queue.get_nowait())
    return words
