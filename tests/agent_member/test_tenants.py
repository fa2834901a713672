"""Whose GPU it was: the fault goes first, its pods follow; what the kubelet does not tell costs nothing else."""

from collections.abc import AsyncIterator, Callable, Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from gpuward.adapters.podresources import KubeletPods
from gpuward.agent.tenants import RETRY_SECONDS, TRIES
from gpuward.model.case import EffectKind, Mode
from gpuward.model.grant import Grant
from gpuward.model.objects.gpu_fault import FaultPod, FaultPods, PodRef
from gpuward.model.resource import GPU_FAULTS
from gpuward.ports import EdgeError, Refused, Unreachable
from gpuward.sim.cluster.network import Presence
from tests.agent_member.node import Node
from tests.kit import kubelet as served
from tests.kit.at_once import AtOnce
from tests.kit.merging import GPU_A, GPU_B
from tests.kit.pretend_driver import a_holder

UID, OTHER = "0b5c9f0e-1111-4222-8333-444455556666", "1c6d0a1f-1111-4222-8333-444455556666"
UUID = "GPU-00000000-1111-2222-3333-444444444444"
UUID_B = "GPU-00000001-1111-2222-3333-444444444444"


@dataclass
class PretendKubelet:
    """Implements PodDevices: tells what it holds, or fails."""

    grants: tuple[Grant, ...] = ()
    fails: EdgeError | None = None
    names: dict[str, tuple[str, str]] = field(default_factory=dict)
    asked: int = 0
    asked_first: Callable[[], None] = lambda: None

    def given(self, deadline_seconds: float) -> tuple[Grant, ...]:
        """Return the grants."""
        assert deadline_seconds == 5.0
        self.asked += 1
        self.asked_first()
        if self.fails is not None:
            raise self.fails
        return self.grants

    def named(self, uids: Collection[str]) -> Mapping[str, tuple[str, str]]:
        """Return those that are known."""
        return {uid: name for uid, name in self.names.items() if uid in uids}


class Asking(Node):
    """A node with a kubelet that is pretend."""

    def __init__(self) -> None:
        super().__init__()
        self.pods = PretendKubelet()
        self.kubelet = self.pods

    def said_of_kubelet(self) -> list[str]:
        """Return what a person was told, but that the log is watched."""
        return [warning for warning in self.warnings if not warning.startswith("watching")]

    def told(self, code: int = 79) -> FaultPods | None:
        """Return what a fault tells of pods."""
        fault = next(one for one in self.faults() if one.spec.code == code)
        return None if fault.status is None else fault.status.pods


def grant(pod: str, *devices: str, uids: tuple[str, ...] = (), container: str = "train") -> Grant:
    return Grant("ml", pod, container, resource="nvidia.com/gpu", devices=devices, uids=uids)


@pytest.fixture
async def node() -> AsyncIterator[Asking]:
    """Give a node whose agent has told of itself once."""
    node = Asking()
    node.lead()
    await node.start()
    await node.live(2)
    yield node
    await node.end()


async def test_a_fault_names_the_pods_that_have_its_gpu(node: Asking) -> None:
    node.pods.grants = (grant("train-0", UUID, uids=(UID,)), grant("other-0", UUID_B))
    node.xid(79)
    await node.live(3)
    told = node.told()
    assert told is not None
    assert told.pods == (FaultPod("ml", "train-0", UID, containers=("train",), devices=(UUID,)),)
    assert told.trouble == ""
    assert node.faults()[0].pods == (PodRef("ml", "train-0", UID),)


async def test_pods_that_share_a_gpu_are_all_named_each_once(node: Asking) -> None:
    node.pods.grants = (
        grant("b", f"{UUID}::3"),
        grant("a", f"{UUID}::0", UUID_B, container="two"),
        grant("a", f"{UUID}::1", container="one"),
    )
    node.xid(79)
    await node.live(3)
    told = node.told()
    assert told is not None
    assert [(one.name, one.containers, one.devices) for one in told.pods] == [
        ("a", ("one", "two"), (f"{UUID}::1", f"{UUID}::0")),
        ("b", ("train",), (f"{UUID}::3",)),
    ]


async def test_a_mig_device_is_known_by_what_its_gpu_told_before_it_was_drained(node: Asking) -> None:
    node.driver.gpus[GPU_A] = replace(node.driver.gpus[GPU_A], mig=True, mig_uuids=("MIG-1", "MIG-2"))
    await node.live(6)
    node.driver.gpus[GPU_A] = replace(node.driver.gpus[GPU_A], mig=None, mig_uuids=None)
    await node.live(6)
    await node.kill()
    node.driver.drained.add(GPU_A)
    await node.restart()
    node.pods.grants = (grant("slice-0", "MIG-2"),)
    node.xid(79)
    await node.live(3)
    told = node.told()
    assert told is not None
    assert [(one.name, one.devices) for one in told.pods] == [("slice-0", ("MIG-2",))]


async def test_what_an_id_does_not_tell_is_not_guessed_but_said(node: Asking) -> None:
    node.pods.grants = (grant("odd-0", "nvidia.com/gpu=0"), grant("train-0", UUID))
    node.xid(79)
    await node.live(3)
    told = node.told()
    assert told is not None
    assert [one.name for one in told.pods] == ["train-0"]
    assert told.trouble == "Which GPU these devices are of is not known: nvidia.com/gpu=0 of ml/odd-0."


async def test_of_two_pods_that_had_one_name_the_one_that_held_the_gpu_is_told_apart(node: Asking) -> None:
    node.driver.held[0] = [replace(a_holder(), pod_uid=OTHER)]
    node.pods.grants = (grant("train-0", UUID, uids=(UID, OTHER)), grant("train-1", UUID, uids=(UID, "x")))
    node.xid(79)
    await node.live(3)
    told = node.told()
    assert told is not None
    assert [(one.name, one.uid) for one in told.pods] == [("train-0", OTHER), ("train-1", "")]


async def test_a_process_that_held_the_gpu_has_its_pods_name_at_once(node: Asking) -> None:
    node.pods.names = {UID: ("ml", "train-0")}
    node.pods.fails = Refused("the kubelet says no")
    node.driver.held[0] = [replace(a_holder(), pod_uid=UID), replace(a_holder(77), pod_uid=OTHER), a_holder(78)]
    node.xid(79)
    await node.live(3)
    (fault,) = node.faults()
    assert [one.pod for one in fault.spec.holders] == [PodRef("ml", "train-0", UID), PodRef(uid=OTHER), None]
    assert fault.pods == (PodRef("ml", "train-0", UID), PodRef(uid=OTHER))


class Stuck(AtOnce):
    """Hands of which the one that asks the kubelet never comes back."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Do the work, unless it is a question to the kubelet."""
        return Future() if fn.__name__ == "given" else super().submit(fn, *args, **kwargs)


async def test_a_fault_is_told_and_orders_are_done_while_the_kubelet_hangs() -> None:
    node = Asking()
    node.hands = Stuck()
    node.lead()
    await node.start()
    await node.live(2)
    node.xid(79)
    node.xid(31, GPU_B)
    await node.live(2)
    assert [fault.spec.code for fault in node.faults()] == [79, 31]
    node.want(node.order(1, EffectKind.EVIDENCE), node.order(2, EffectKind.DRAIN), mode=Mode.ISOLATE)
    await node.live(5)
    assert node.driver.drained == {GPU_A}
    await node.end()


async def test_a_fault_is_on_the_disk_before_the_kubelet_is_asked(node: Asking) -> None:
    seen: list[bool] = []
    node.pods.asked_first = lambda: seen.append(bool((node.outbox.load() or {}).get("parcels")))
    node.xid(79)
    await node.live(3)
    assert seen == [True]


async def test_every_fault_asks_anew_and_faults_that_came_together_ask_once(node: Asking) -> None:
    node.pods.grants = (grant("early-0", UUID),)
    node.xid(43)
    node.xid(31)
    await node.live(3)
    assert node.pods.asked == 2
    node.pods.grants = (grant("late-0", UUID),)
    node.xid(79)
    await node.live(3)
    assert node.pods.asked == 3
    names = {code: [one.name for one in told.pods] for code in (43, 31, 79) if (told := node.told(code)) is not None}
    assert names == {43: ["early-0"], 31: ["early-0"], 79: ["late-0"]}


@pytest.mark.parametrize(
    ("error", "asked"), [(Refused("grpcio is not installed"), 1), (Unreachable("nobody there"), 3)]
)
async def test_that_nobody_answers_is_said_before_any_fault_came(error: EdgeError, asked: int) -> None:
    node = Asking()
    node.pods.fails = error
    node.lead()
    await node.start()
    await node.live(TRIES * RETRY_SECONDS + 10)
    assert node.said_of_kubelet() == [str(error)]
    assert node.pods.asked == asked
    await node.end()


async def test_a_kubelet_that_is_away_is_asked_again_and_what_it_then_says_is_told(node: Asking) -> None:
    node.pods.fails = Unreachable("the kubelet is away")
    node.pods.grants = (grant("train-0", UUID),)
    node.xid(79)
    await node.live(3)
    assert node.told() is None
    node.pods.fails = None
    await node.live(RETRY_SECONDS)
    told = node.told()
    assert told is not None
    assert [one.name for one in told.pods] == ["train-0"]
    assert node.said_of_kubelet() == []


async def test_a_kubelet_that_stays_away_is_a_sentence_and_is_asked_no_more(node: Asking) -> None:
    node.pods.fails = Unreachable("the kubelet is away")
    node.xid(79)
    await node.live(TRIES * RETRY_SECONDS)
    told = node.told()
    assert told is not None
    assert (told.pods, told.trouble) == ((), "the kubelet is away")
    assert node.pods.asked == TRIES + 1
    assert node.said_of_kubelet() == ["the kubelet is away"]


async def test_a_kubelet_that_says_no_is_asked_once_and_the_sentence_is_said_once(node: Asking) -> None:
    node.pods.fails = Refused("the package grpcio is not installed")
    for pci in (GPU_A, GPU_B):
        node.xid(79, pci)
        await node.live(3)
    assert node.pods.asked == 3
    assert node.said_of_kubelet() == ["the package grpcio is not installed"]
    assert {fault.status.pods.trouble for fault in node.faults() if fault.status and fault.status.pods} == {
        "the package grpcio is not installed"
    }


async def test_pods_are_told_once_and_later_evidence_leaves_them(node: Asking) -> None:
    node.pods.grants = (grant("train-0", UUID),)
    node.xid(45)
    await node.live(3)
    node.xid(79)
    await node.live(20)
    fault = next(one for one in node.faults() if one.spec.code == 45)
    assert fault.status is not None
    assert fault.newest is not None
    assert fault.status.pods is not None
    assert [one.name for one in fault.status.pods.pods] == ["train-0"]
    versions = [one.head.version for one in node.faults()]
    await node.restart()
    await node.live(20)
    assert [one.head.version for one in node.faults()] == versions


async def test_what_came_while_the_api_was_away_is_told_with_its_pods(node: Asking) -> None:
    node.turn(Presence.AWAY)
    node.pods.grants = (grant("train-0", UUID),)
    node.xid(45)
    await node.live(5)
    node.xid(79)
    await node.live(30)
    node.pods.grants = ()
    node.turn(Presence.THERE)
    await node.live(60)
    for code in (45, 79):
        told = node.told(code)
        assert told is not None
        assert [one.name for one in told.pods] == ["train-0"]


async def test_an_agent_that_is_killed_before_the_answer_asks_in_its_next_life(node: Asking) -> None:
    node.pods.fails = Unreachable("not yet")
    node.xid(79)
    await node.live(3)
    assert node.told() is None
    node.pods.fails = None
    node.pods.grants = (grant("train-0", UUID),)
    await node.restart()
    await node.live(5)
    told = node.told()
    assert told is not None
    assert [one.name for one in told.pods] == ["train-0"]


async def test_pods_of_a_fault_that_was_pruned_make_no_object_anew(node: Asking) -> None:
    node.pods.fails = Unreachable("not yet")
    node.xid(45)
    await node.live(3)
    (fault,) = node.faults()
    await node.cluster.delete(GPU_FAULTS, fault.head.name)
    node.pods.fails = None
    await node.live(RETRY_SECONDS + 5)
    assert node.faults() == []


async def test_without_a_kubelet_faults_are_told_as_ever() -> None:
    node = Node()
    node.lead()
    await node.start()
    node.xid(79)
    await node.live(5)
    assert [one.status for one in node.faults()] == [None]
    await node.end()


async def test_end_to_end_a_fault_names_the_pod_that_a_real_kubelets_socket_tells(tmp_path: Path) -> None:
    socket, logs = str(tmp_path / "kubelet.sock"), tmp_path / "pods"
    (logs / f"ml_train-0_{UID}").mkdir(parents=True)
    node = Node()
    node.kubelet = KubeletPods(socket, logs=str(logs))
    node.driver.held[0] = [replace(a_holder(), pod_uid=UID)]
    node.lead()
    await node.start()
    train = served.container("train", served.devices("nvidia.com/gpu.shared", f"{UUID}::2"), claims=[served.claim("x")])
    with served.telling(socket, served.pod("ml", "train-0", train)):
        node.xid(79)
        await node.live(5)
    (fault,) = node.faults()
    assert [one.pod for one in fault.spec.holders] == [PodRef("ml", "train-0", UID)]
    assert fault.status is not None
    assert fault.status.pods is not None
    assert fault.status.pods.pods == (FaultPod("ml", "train-0", UID, containers=("train",), devices=(f"{UUID}::2",)),)
    await node.end()
