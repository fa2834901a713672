"""A GPU that somebody else has drained is out of service and not lost: said when it begins and ends, never a case."""

from dataclasses import dataclass, field

import pytest

from gpuward.agent.polling import Sources, poll
from gpuward.model.case import CaseState, Mode
from gpuward.model.happening import What
from gpuward.ports import Unreachable
from tests.agent.test_standalone import DOUBLE_BIT
from tests.agent.test_telemetry import all_by, cases, later, observed, vanish
from tests.kit.merging import GPU_A, GPU_B, GPU_C
from tests.kit.pretend import At, PretendClock
from tests.kit.pretend_driver import PretendDriver, hung
from tests.kit.served import Server


@dataclass
class Deaf(PretendDriver):
    """A driver whose tool cannot tell of some GPUs whether they are drained; `asked` are those it was asked of."""

    deaf: set[str] = field(default_factory=set)
    asked: list[tuple[str, float]] = field(default_factory=list)

    def is_drained(self, pci: str, deadline_seconds: float) -> bool:
        """Return whether the GPU is drained, unless the tool hangs."""
        self.asked.append((pci, deadline_seconds))
        if pci in self.deaf:
            raise hung()
        return super().is_drained(pci, deadline_seconds)


def drained_by_hand(server: Server, *gpus: str, at: float = 1) -> At:
    return At(at, lambda: server.driver.drained.update(gpus or {GPU_A}))


def undrained_by_hand(server: Server, at: float) -> At:
    return At(at, server.driver.drained.clear)


def said(server: Server) -> list[str]:
    return [one.because for one in server.room.written if one.what is What.SAID and not one.case]


def others(server: Server) -> frozenset[str]:
    assert server.agent is not None
    return server.agent._telemetry.drained_by_others  # noqa: SLF001  nothing outside the agent shows it yet


def test_what_an_administrator_drained_is_said_once_and_is_not_missing() -> None:
    server = Server()
    server.live(drained_by_hand(server), seconds=300)
    assert cases(server) == {}
    assert observed(server) == []
    assert others(server) == {GPU_A}
    (sentence,) = said(server)
    assert f"GPU {GPU_A} is drained, and not by gpuward" in sentence
    assert f"nvidia-smi drain -p {GPU_A.upper()}.0 -m 0" in sentence
    assert server.room.written[0].gpu == GPU_A


def test_its_end_is_said_and_what_is_lost_later_is_missing() -> None:
    server = Server(mode=Mode.OBSERVE)
    server.live(drained_by_hand(server), undrained_by_hand(server, 100), seconds=200)
    assert others(server) == frozenset()
    assert said(server)[1:] == [f"The drain of GPU {GPU_A} that somebody set is lifted."]
    later(server).live(At(1, vanish(server)), seconds=100)
    assert server.case().kind == "gpu_missing"


def test_a_gpu_that_does_not_come_back_from_its_drain_is_missing() -> None:
    server = Server(mode=Mode.OBSERVE)
    server.live(drained_by_hand(server), At(100, vanish(server)), undrained_by_hand(server, 100), seconds=200)
    assert server.case().kind == "gpu_missing"


def test_a_restart_knows_the_drain_and_its_end() -> None:
    server = Server()
    server.live(drained_by_hand(server), seconds=100)
    later(server).live(seconds=100)
    assert len(said(server)) == 1
    server.driver.drained.clear()
    later(server).live(seconds=100)
    assert len(said(server)) == 2
    assert cases(server) == {}


def test_a_state_from_before_drains_were_told_apart_is_used() -> None:
    server = Server()
    server.live(drained_by_hand(server), seconds=100)
    saved = dict(server.cases.load() or {})
    del saved["drained_by_others"], saved["xids_settled"]
    server.cases.save(saved)
    later(server).live(seconds=100)
    assert len(said(server)) == 2, "it is said again, nothing more"
    assert cases(server) == {}


def test_all_gpus_drained_by_hand_is_no_trouble_of_the_driver() -> None:
    server = Server()
    server.live(drained_by_hand(server, GPU_A, GPU_B, GPU_C), seconds=300)
    assert server.agent is not None
    assert server.agent.board().driver_trouble == ""
    assert others(server) == {GPU_A, GPU_B, GPU_C}
    assert cases(server) == {}


def test_when_nobody_can_tell_the_gpu_is_missing_after_two_readings() -> None:
    server = Server(mode=Mode.OBSERVE, driver=Deaf(deaf={GPU_A}))
    server.live(drained_by_hand(server), seconds=50)
    assert cases(server) == {}
    later(server).live(seconds=100)
    assert server.case().kind == "gpu_missing"
    assert others(server) == frozenset()


def test_one_answer_that_fails_ends_nothing_and_two_do() -> None:
    driver = Deaf()
    server = Server(mode=Mode.OBSERVE, driver=driver)
    server.live(
        drained_by_hand(server),
        At(70, lambda: driver.deaf.add(GPU_A)),
        At(100, driver.deaf.clear),
        seconds=200,
    )
    assert others(server) == {GPU_A}
    assert len(said(server)) == 1
    driver.deaf.add(GPU_A)
    later(server).live(seconds=100)
    assert others(server) == frozenset()
    assert "Nobody can tell any more" in said(server)[1]
    driver.deaf.clear()
    later(server).live(seconds=100)
    assert server.case().state is CaseState.WITHDRAWN, "it was drained after all"


def test_the_drains_of_our_own_cases_are_never_somebody_elses() -> None:
    server = Server()
    server.live(server.at(1, DOUBLE_BIT), seconds=900)
    assert cases(server) == {GPU_A: CaseState.CLOSED}
    later(server).live(seconds=200)
    released = Server(mode=Mode.ISOLATE)
    released.live(released.at(1, DOUBLE_BIT), At(100, lambda: released.release(GPU_A)), seconds=300)
    assert cases(released) == {GPU_A: CaseState.CLOSED}
    later(released).live(seconds=100)
    isolated = Server(mode=Mode.ISOLATE)
    isolated.live(isolated.at(1, DOUBLE_BIT), seconds=100)
    later(isolated).live(seconds=100)
    assert isolated.driver.drained == {GPU_A}
    assert said(server) == said(released) == said(isolated) == []


def test_a_gpu_that_comes_into_a_case_of_ours_is_ours() -> None:
    server = Server(mode=Mode.ISOLATE)
    server.live(drained_by_hand(server), server.at(60, DOUBLE_BIT), seconds=200)
    assert others(server) == frozenset()
    assert "a release lifts the drain" in said(server)[1]
    later(server).live(At(10, lambda: server.release(GPU_A)), seconds=100)
    assert cases(server) == {GPU_A: CaseState.CLOSED}
    later(server).live(drained_by_hand(server), seconds=100)
    assert others(server) == {GPU_A}, "after the case it is somebody else's again"


def test_nobody_is_asked_while_all_gpus_are_shown() -> None:
    driver = Deaf()
    Server(driver=driver).live(seconds=300)
    assert driver.asked == []


def test_the_bus_alone_shows_drained_gpus_too_and_nobody_is_asked() -> None:
    driver = Deaf()
    server = Server(driver=driver)
    server.live(At(1, lambda: all_by(server, "sysfs")), At(2, vanish(server)), seconds=100)
    assert driver.asked == []


class Slow(Deaf):
    """A driver that lets all the time pass before it says that it cannot tell."""

    def __init__(self, clock: PretendClock, deaf: set[str], drained: set[str]) -> None:
        super().__init__(deaf=deaf, drained=drained)
        self.clock = clock

    def is_drained(self, pci: str, deadline_seconds: float) -> bool:
        """Return whether the GPU is drained, in time or not."""
        if pci in self.deaf:
            self.clock.wait(deadline_seconds)
        return super().is_drained(pci, deadline_seconds)


def test_those_that_are_not_shown_share_the_time_that_the_reading_left() -> None:
    clock = PretendClock()
    driver = Slow(clock, {GPU_A}, {GPU_A, GPU_B})
    polled = poll(Sources(driver, clock), frozenset({GPU_A, GPU_B, GPU_C}), read_seconds=8.0, exporter_seconds=1.0)
    assert driver.asked == [(GPU_A, 4.0), (GPU_B, 4.0)]
    assert polled.drained == {GPU_A: None, GPU_B: True}
    assert polled.exported is None


def test_when_the_reading_took_all_the_time_nobody_is_asked() -> None:
    driver = Deaf(drained={GPU_A})
    polled = poll(Sources(driver, PretendClock()), frozenset({GPU_A}), read_seconds=0.0, exporter_seconds=1.0)
    assert (polled.drained, driver.asked) == ({GPU_A: None}, [])


def test_tools_that_do_not_answer_are_no_poll() -> None:
    driver = PretendDriver(troubles={"read": hung()})
    with pytest.raises(Unreachable):
        poll(Sources(driver, PretendClock()), frozenset(), read_seconds=1.0, exporter_seconds=1.0)
