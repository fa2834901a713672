"""Portraits: one at a time, once an hour, never of a GPU that is in a case, and still there when the GPU is not."""

from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from gpuward.agent.portraits import BYTES_KEPT, GPUS_KEPT, Portraits, Sittings
from gpuward.model.case import Case, CaseState, Effect, EffectKind, Outcome
from gpuward.model.level import FaultClass, Level
from gpuward.ports import EdgeError, Refused
from tests.kit.merging import GPU_A, GPU_B, GPU_C
from tests.kit.pretend import PretendClock, PretendStore
from tests.kit.pretend_driver import PretendDriver, a_reading, hung

HOUR = 3600.0


class Later(Executor):
    """An executor that works when it is told to; `most` is how much ever waited at once."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Future[Any], Any, tuple[Any, ...]]] = []
        self.submitted = 0
        self.most = 0

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Take the work."""
        assert not kwargs
        future: Future[Any] = Future()
        self.waiting.append((future, fn, args))
        self.submitted += 1
        self.most = max(self.most, len(self.waiting))
        return future

    def work(self) -> None:
        """Do what waits."""
        for future, fn, args in self.waiting:
            future.set_result(fn(*args))
        self.waiting.clear()


@dataclass
class Studio:
    """Portraits over a pretend driver whose words are in `texts`, or its trouble."""

    driver: PretendDriver = field(default_factory=PretendDriver)
    clock: PretendClock = field(default_factory=PretendClock)
    hands: Later = field(default_factory=Later)
    store: PretendStore = field(default_factory=PretendStore)
    texts: dict[str, str | EdgeError] = field(default_factory=dict)
    described: list[str] = field(default_factory=list)
    cases: list[Case] = field(default_factory=list)
    road: str = "nvml"
    warned: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.driver.describe = self._describe  # type: ignore[method-assign]  # the words are the test's
        self.portraits = self.anew()

    def _describe(self, pci: str, deadline_seconds: float) -> str:
        assert deadline_seconds == Sittings().describe_seconds
        self.described.append(pci)
        said = self.texts.get(pci, f"GPU {pci} at {self.clock.now()}\n")
        if isinstance(said, EdgeError):
            raise said
        return said

    def anew(self) -> Portraits:
        """Begin again, as after a restart."""
        self.portraits = Portraits(self.driver, self.clock, hands=self.hands, store=self.store)
        return self.portraits

    def turn(self) -> None:
        """Let one round pass."""
        reading = replace(self.driver.read(1.0), road=self.road)
        self.portraits.turn(reading, self.cases, self.warned.append)

    def rounds(self, seconds: float = 10.0, step: float = 1.0) -> "Studio":
        """Let rounds pass for so long, the hands working between them."""
        for _ in range(int(seconds / step)):
            self.turn()
            self.hands.work()
            self.clock.wait(step)
        return self


def a_case(state: CaseState, *kinds: EffectKind) -> Case:
    effects = tuple(
        Effect(number=number, kind=kind, asked_at=0.0, outcome=Outcome.DONE, ended_at=0.0)
        for number, kind in enumerate(kinds, 1)
    )
    return Case(
        id="c",
        node="n",
        gpu=GPU_A,
        gpu_uuid=None,
        fault="k1",
        code=48,
        kind="xid",
        title="",
        level=Level.P0,
        fault_class=FaultClass.HARDWARE,
        parks=False,
        opened_at=0.0,
        state=state,
        since=0.0,
        effects=effects,
    )


def test_each_gpu_is_taken_at_the_start_and_then_once_an_hour() -> None:
    studio = Studio().rounds()
    assert studio.described == [GPU_A, GPU_B, GPU_C]
    studio.rounds(HOUR - 120, step=10)
    assert len(studio.described) == 3
    studio.rounds(240, step=10)
    assert sorted(studio.described[3:]) == [GPU_A, GPU_B, GPU_C]


def test_one_is_taken_at_a_time_beside_the_loop() -> None:
    studio = Studio()
    for _ in range(20):
        studio.turn()
        studio.clock.wait(60)
    assert (studio.hands.submitted, studio.described) == (1, [])
    studio.hands.work()
    studio.rounds()
    assert studio.hands.most == 1
    assert len(studio.described) == 3


def test_when_nothing_is_due_nothing_is_looked_at() -> None:
    studio = Studio().rounds()
    before = studio.hands.submitted

    class Untouchable:
        def __iter__(self) -> Any:
            raise AssertionError("the cases were looked at")

    for _ in range(50):
        studio.portraits.turn(None, Untouchable(), studio.warned.append)
        studio.clock.wait(1)
    assert studio.hands.submitted == before


def test_the_last_one_is_still_there_when_the_gpu_is_not() -> None:
    studio = Studio().rounds()
    taken = studio.portraits.of(GPU_A)
    assert taken is not None
    assert taken[1].startswith(f"GPU {GPU_A} at")
    del studio.driver.gpus[GPU_A]
    studio.rounds(2 * HOUR, step=30)
    assert studio.portraits.of(GPU_A) == taken
    again = studio.anew()
    again.load()
    assert again.of(GPU_A) == taken
    assert again.of("0000:ff:00") is None


def test_a_restart_takes_them_anew() -> None:
    studio = Studio().rounds()
    old = studio.portraits.of(GPU_A)
    studio.anew().load()
    studio.rounds()
    new = studio.portraits.of(GPU_A)
    assert old is not None
    assert new is not None
    assert new[0] > old[0]


def test_a_clock_that_is_set_changes_nothing_of_the_pace() -> None:
    studio = Studio().rounds()
    studio.clock.step(-10 * HOUR)
    studio.rounds(120)
    studio.clock.step(30 * HOUR)
    studio.rounds(120)
    assert len(studio.described) == 3


@pytest.mark.parametrize(
    "case",
    [
        a_case(CaseState.SUSPECT),
        a_case(CaseState.EVACUATING, EffectKind.DRAIN),
        a_case(CaseState.REPAIRING, EffectKind.DRAIN, EffectKind.UNDRAIN),
        a_case(CaseState.PARKED, EffectKind.DRAIN),
        a_case(CaseState.WITHDRAWN, EffectKind.DRAIN),
    ],
    ids=lambda case: str(case.state),
)
def test_a_gpu_in_a_case_is_not_taken_and_is_when_the_case_has_ended(case: Case) -> None:
    studio = Studio(cases=[case]).rounds(120)
    assert studio.described == [GPU_B, GPU_C]
    studio.cases = [a_case(CaseState.CLOSED)]
    studio.rounds(120)
    assert studio.described == [GPU_B, GPU_C, GPU_A]


def test_a_gpu_that_is_lost_or_drained_is_not_taken() -> None:
    studio = Studio()
    studio.driver.gpus[GPU_A] = replace(studio.driver.gpus[GPU_A], lost=True)
    studio.driver.drained.add(GPU_B)
    studio.rounds(120)
    assert studio.described == [GPU_C]
    studio.driver.drained.clear()
    studio.rounds(120)
    assert studio.described == [GPU_C, GPU_B]


@pytest.mark.parametrize("road", ["sysfs", None])
def test_without_the_drivers_tools_nobody_is_described(road: str | None) -> None:
    studio = Studio(road=road or "nvml")
    for _ in range(10):
        studio.portraits.turn(None, [], studio.warned.append) if road is None else studio.turn()
        studio.hands.work()
        studio.clock.wait(60)
    assert studio.described == []


@pytest.mark.parametrize("said", [hung(), Refused("it is lost"), "", "  \n", "Product Name : [GPU is lost]"])
def test_what_is_no_portrait_leaves_the_old_one_and_is_tried_again(said: str | EdgeError) -> None:
    studio = Studio().rounds()
    old = studio.portraits.of(GPU_A)
    studio.texts[GPU_A] = said
    studio.rounds(HOUR + 30, step=10)
    tries = studio.described.count(GPU_A)
    assert (studio.portraits.of(GPU_A), tries) == (old, 2)
    del studio.texts[GPU_A]
    studio.rounds(660, step=10)
    assert studio.described.count(GPU_A) == 3
    assert studio.portraits.of(GPU_A) != old
    assert studio.warned == []


def test_one_that_cannot_be_saved_is_kept_and_told() -> None:
    studio = Studio()
    studio.store.broken = True
    studio.rounds()
    assert studio.portraits.of(GPU_A) is not None
    assert "do not survive a restart" in studio.warned[0]


def test_without_a_store_they_live_as_long_as_the_agent() -> None:
    studio = Studio()
    studio.portraits = Portraits(studio.driver, studio.clock, hands=studio.hands)
    studio.portraits.load()
    studio.rounds()
    assert studio.portraits.of(GPU_A) is not None
    assert studio.store.saves == 0


@given(some.text(some.sampled_from("aé漢\x00\ud800"), max_size=3))
def test_any_text_is_cut_to_what_is_kept(end: str) -> None:
    studio = Studio()
    studio.texts[GPU_A] = "é" * BYTES_KEPT + end
    studio.rounds(3)
    taken = studio.portraits.of(GPU_A)
    assert taken is not None
    assert len(taken[1].encode()) == BYTES_KEPT
    studio.texts[GPU_A] = f"short {end}"
    assert len(studio.portraits.of(GPU_A) or ()) == 2


def test_no_more_gpus_are_kept_than_a_server_has() -> None:
    studio = Studio()
    for number in range(GPUS_KEPT + 3):
        pci = f"0000:{number:02x}:00"
        studio.driver.gpus = {pci: a_reading(pci, 0)}
        studio.rounds(70)
    kept = [number for number in range(GPUS_KEPT + 3) if studio.portraits.of(f"0000:{number:02x}:00")]
    assert kept == list(range(3, GPUS_KEPT + 3))
    assert len(studio.store.load() or {}) == GPUS_KEPT


@pytest.mark.parametrize("saved", [{GPU_A: "x"}, {GPU_A: [1.0]}, {GPU_A: ["x", "y"]}, {GPU_A: [True, "y"]}])
def test_what_was_saved_in_another_shape_is_refused(saved: dict[str, Any]) -> None:
    studio = Studio()
    studio.store.save(saved)
    with pytest.raises(Refused, match="delete it"):
        studio.anew().load()
    assert studio.portraits.of(GPU_A) is None
