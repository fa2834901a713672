"""Whose GPU it was: of each new fault the kubelet is asked, beside the loop, after the fault is on its way.

The answer is read anew for every fault: a pod that ended before it was not hit, and one that came after it neither. A
kubelet that does not answer costs nothing but the answer; why there is none is told in its place.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace

from gpuward.agent.bench import Remembered
from gpuward.agent.devices import gpu_of, places_of
from gpuward.agent.outbox import Due, Outbox
from gpuward.model.grant import Grant
from gpuward.model.objects.gpu_fault import FaultPod, FaultPods
from gpuward.ports import Clock, EdgeError, PodDevices, Refused

ANSWER_SECONDS = 5.0
RETRY_SECONDS = 10.0
TRIES = 3
"""A kubelet that is just being restarted answers within this."""
_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class _Asking:
    """A question that is under way, and the faults that came before it was asked."""

    at: float
    faults: tuple[str, ...]
    answer: "Future[tuple[Grant, ...]]"


class Tenants:
    """Asks for what is due in the outbox and puts the answers there. One question at a time, in the loop's thread."""

    def __init__(
        self, kubelet: PodDevices, clock: Clock, *, hands: Executor, outbox: Outbox, warn: Callable[[str], None]
    ) -> None:
        self._kubelet = kubelet
        self._clock = clock
        self._hands = hands
        self._outbox = outbox
        self._warn = warn
        self._asking: _Asking | None = None
        self._tried = False
        self._failures = 0
        self._next = 0.0

    def turn(self, memory: Mapping[str, Remembered]) -> None:
        """Take an answer that has come, and ask what is due. `memory`: what is remembered of every GPU.

        It is asked once before any fault came, so that a person hears early that nobody answers.
        """
        if self._asking is not None and self._asking.answer.done():
            asking, self._asking = self._asking, None
            self._take(asking, memory)
        is_due = bool(self._outbox.pods_due) or not self._tried
        if self._asking is None and is_due and self._clock.monotonic() >= self._next:
            answer = self._hands.submit(self._kubelet.given, ANSWER_SECONDS)
            self._asking = _Asking(self._clock.now(), tuple(self._outbox.pods_due), answer)

    def _take(self, asking: _Asking, memory: Mapping[str, Remembered]) -> None:
        try:
            grants = asking.answer.result()
        except EdgeError as error:
            self._failed(asking, error)
            return
        self._failures, self._tried = 0, True
        for name in asking.faults:
            due = self._outbox.pods_due.get(name)
            if due is not None:
                self._outbox.put_pods(name, pods_of(due, grants, memory, at=asking.at))

    def _failed(self, asking: _Asking, error: EdgeError) -> None:
        """Ask again later, or tell why there is no answer."""
        self._failures += 1
        if not isinstance(error, Refused) and self._failures < TRIES:
            self._next = self._clock.monotonic() + RETRY_SECONDS
            return
        self._failures, self._tried = 0, True
        self._warn(str(error))
        for name in asking.faults:
            self._outbox.put_pods(name, FaultPods(at=asking.at, trouble=str(error)))


def pods_of(due: Due, grants: Iterable[Grant], memory: Mapping[str, Remembered], *, at: float) -> FaultPods:
    """Return the pods that have the GPU of a fault, or a part of it, in order of their names."""
    places = places_of(memory)
    pods: dict[tuple[str, str], FaultPod] = {}
    unknown: list[str] = []
    for one in sorted(grants, key=lambda one: (one.namespace, one.pod, one.container, one.resource)):
        gpus = {device: gpu_of(device, places) for device in one.devices}
        unknown += [f"{device} of {one.namespace}/{one.pod}" for device, gpu in gpus.items() if gpu is None]
        mine = tuple(device for device, gpu in gpus.items() if gpu == due.gpu)
        if mine:
            pod = pods.get((one.namespace, one.pod)) or FaultPod(one.namespace, one.pod, _uid_of(one, due))
            containers = tuple(dict.fromkeys((*pod.containers, one.container)))
            pods[one.namespace, one.pod] = replace(pod, containers=containers, devices=(*pod.devices, *mine))
    return FaultPods(at=at, pods=tuple(pods.values()), trouble=_unknown(unknown))


def _uid_of(grant: Grant, due: Due) -> str:
    """Return the UID of a pod: of several that had its name, the one whose processes held the GPU; else unknown."""
    uids = grant.uids if len(grant.uids) == 1 else tuple(uid for uid in grant.uids if uid in due.uids)
    return uids[0] if len(uids) == 1 else ""


def _unknown(devices: Sequence[str]) -> str:
    if not devices:
        return ""
    named = ", ".join(devices[:_MOST_NAMED])
    more = f" and {len(devices) - _MOST_NAMED} more" if len(devices) > _MOST_NAMED else ""
    return f"Which GPU these devices are of is not known: {named}{more}."
