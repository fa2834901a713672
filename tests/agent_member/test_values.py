"""The pure parts by themselves: who may be drained alone, what state a GPU is in, what a receipt settles."""

from dataclasses import replace

import pytest

from gpuward.agent.bench import Remembered
from gpuward.agent.lone import Lookout, candidate
from gpuward.agent.orders import Grounds, Ledger, with_order
from gpuward.agent.outbox import Outbox
from gpuward.agent.post import Receipt
from gpuward.agent.reporting import state_of
from gpuward.agent.sight import Seen
from gpuward.model.case import EffectKind, Mode
from gpuward.model.fault import Fault
from gpuward.model.level import FaultClass, Level
from gpuward.model.objects.gpu_node import GpuOrder, GpuState
from gpuward.model.scene import GpuSight
from tests.kit.merging import GPU_A, told, xid
from tests.kit.pretend import PretendStore

_WAS = Remembered(pci=GPU_A, uuid="GPU-1", minor=0, persistence=True, links_active=0, pcie_width=16)


def _fault() -> Fault:
    return told([xid(48)]).only()


def _lookout() -> Lookout:
    sight = GpuSight(present=True, lost=False, work=(), display=False)
    return Lookout(Mode.ISOLATE, held="", sights={GPU_A: sight}, history=frozenset(), drained=frozenset())


def _seen() -> Seen:
    return Seen(was=_WAS, reading=None, read=True, holders=(), drained=False, lost=False, display=False)


def test_a_hardware_p0_is_a_candidate() -> None:
    fault = _fault()
    assert candidate([(fault, "f")], Ledger(), _lookout()) == (fault, "f")


@pytest.mark.parametrize("fault_class", [FaultClass.DRIVER, FaultClass.APPLICATION, FaultClass.UNKNOWN])
def test_a_fault_of_another_class_is_none(fault_class: FaultClass) -> None:
    fault = _fault()
    fault = replace(fault, verdict=replace(fault.verdict, fault_class=fault_class))
    assert candidate([(fault, "f")], Ledger(), _lookout()) is None


@pytest.mark.parametrize("level", [Level.P1, Level.P2, Level.IGNORE])
def test_a_milder_fault_is_none(level: Level) -> None:
    fault = _fault()
    assert candidate([(replace(fault, verdict=replace(fault.verdict, level=level)), "f")], Ledger(), _lookout()) is None


def test_history_a_display_and_a_gpu_that_is_drained_already_are_none() -> None:
    fault, lookout = _fault(), _lookout()
    display = {GPU_A: replace(lookout.sights[GPU_A], display=True)}
    for other in (
        replace(lookout, history=frozenset({fault.id})),
        replace(lookout, sights=display),
        replace(lookout, drained=frozenset({GPU_A})),
    ):
        assert candidate([(fault, "f")], Ledger(), other) is None


def test_what_a_gpu_is_doing_is_told_by_what_was_done_to_it_and_what_is_seen() -> None:
    assert state_of(_seen(), ()) is GpuState.UNKNOWN
    assert state_of(replace(_seen(), drained_by_others=True), ()) is GpuState.DRAINED
    assert state_of(replace(_seen(), drained=True), ()) is GpuState.IDLE
    assert state_of(replace(_seen(), drained=True, holders=None), ()) is GpuState.DRAINING
    assert state_of(replace(_seen(), lost=True), ()) is GpuState.LOST
    grounds = Grounds(now=1.0, node="gpu-1", boot="b", mode=Mode.REPAIR, gpus={GPU_A: _WAS}, obstacles={}, faults={})
    order = GpuOrder("one.1", "one", boot="b", pci=GPU_A, what=EffectKind.RESET, asked_at=1.0)
    resetting = tuple(with_order(Ledger(), order, grounds).cases.values())
    assert state_of(_seen(), resetting) is GpuState.RESETTING


def test_a_receipt_of_an_older_version_leaves_the_newer_one_waiting() -> None:
    outbox, fault = Outbox(PretendStore(), node="gpu-1", warn=lambda _sentence: None), _fault()
    assert outbox.put(fault, at=1.0, holders=lambda _fault: ())
    (first,) = outbox.unsent()
    assert not outbox.put(fault, at=2.0, over=True, holders=lambda _fault: ())
    outbox.receive(Receipt(first.name, first.number))
    assert len(outbox) == 1
    (second,) = outbox.unsent()
    assert second.body is not None
    assert second.evidence is not None
    outbox.receive(Receipt(second.name, second.number))
    assert len(outbox) == 0
