"""A try on pretend ports: how it ends when a part hangs, refuses or answers for another GPU, and what is undone."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from gpuward.agent.candidate import Candidate, Server, choose
from gpuward.agent.qualify import SETTLE_SECONDS, Ways, qualify
from gpuward.agent.unfinished import Marks, Undoing, load_marks, save_marks, undo_unfinished
from gpuward.model.gpu import Gpu
from gpuward.model.node import GpuReading, NodeReading, NvLink
from gpuward.model.qualified import BELIEFS, Finding, proves
from gpuward.ports import Conflict, EdgeError, Refused, Unreachable
from tests.kit.merging import GPU_A, GPU_B
from tests.kit.pretend import START, PretendClock, PretendStore
from tests.kit.pretend_driver import PretendDriver, a_holder, hung

UNIT = "nvidia-dcgm.service"
LINKS = tuple(NvLink(link=link, active=True, speed_gb_per_second=26.5) for link in range(18))


@dataclass
class PretendProbe:
    """Implements Probe over a pretend driver, which behaves as we believe."""

    driver: PretendDriver

    def may_act(self, pci: str) -> bool:
        """Return that it may."""
        return pci in self.driver.gpus

    def shown_by(self, uuid: str) -> tuple[str, ...]:
        """Return -L where it is shown."""
        shown = self.driver.read(1.0).gpus
        return ("-L",) if any(gpu.uuid == uuid for gpu in shown) else ()

    def finds_by_index(self, index: int) -> bool:
        """Return that it does not."""
        return index < 0

    def refuses_drain(self, pci: str) -> str:
        """Refuse when it is drained."""
        return "in use" if pci in self.driver.drained else ""

    def refuses_reset(self, pci: str) -> str:
        """Refuse when it is drained."""
        return "no such GPU" if pci in self.driver.drained else ""

    def files_gone(self, pci: str, minor: int) -> tuple[str, ...]:
        """Return that all are there."""
        return () if pci in self.driver.gpus else (f"/dev/nvidia{minor}",)


@dataclass
class Bench:
    """A pretend server on which one GPU is tried."""

    driver: PretendDriver = field(default_factory=PretendDriver)
    marks: PretendStore = field(default_factory=PretendStore)
    clock: PretendClock = field(default_factory=PretendClock)
    notes: list[str] = field(default_factory=list)
    stopped: Callable[[], bool] = lambda: False

    def __post_init__(self) -> None:
        self.driver.held = {minor: [a_holder(9, "nv-hostengine", service=UNIT)] for minor in range(3)}
        self.driver.running = {UNIT}

    @property
    def undoing(self) -> Undoing:
        """Return the ports of an undo."""
        return Undoing(driver=self.driver, services=self.driver, clock=self.clock, marks=self.marks)

    def choose(self, name: str = GPU_A, **known: object) -> Candidate:
        """Return the GPU of that name."""
        return choose(name, replace(Server(listed=()), **known), self.driver, self.driver)  # type: ignore[arg-type]

    def qualify(self) -> tuple[Finding, ...]:
        """Try GPU_A."""
        probe = PretendProbe(self.driver)
        ways = Ways(self.undoing, self.driver, probe, self.notes.append, lambda _: None, self.stopped)
        return qualify(self.choose(), ways)

    def change(self, **changes: object) -> None:
        """Change GPU_A."""
        self.driver.gpus[GPU_A] = replace(self.driver.gpus[GPU_A], **changes)  # type: ignore[arg-type]

    def is_as_before(self) -> bool:
        """Return whether no mark stands on the machine, nor is written down."""
        gpu = self.driver.gpus[GPU_A]
        return (
            not self.driver.drained
            and gpu.persistence is True
            and self.driver.running == {UNIT}
            and load_marks(self.marks) is None
        )


def why(findings: tuple[Finding, ...], belief: str) -> tuple[bool | None, str]:
    return next((one.holds, one.why) for one in findings if one.belief == belief)


def test_all_is_true_where_all_is_as_believed() -> None:
    bench = Bench()
    findings = bench.qualify()
    assert [one.belief for one in findings] == [belief.id for belief in BELIEFS]
    assert {one.holds for one in findings} == {True}
    assert bench.is_as_before()
    assert bench.driver.calls.count("reset") == 1


def _resets_to(bench: Bench, change: Callable[[GpuReading], GpuReading]) -> None:
    """Let a reset leave the GPU changed."""
    real = bench.driver.reset

    def reset(pci: str, deadline_seconds: float, *, key: str) -> None:
        real(pci, deadline_seconds, key=key)
        bench.driver.gpus[pci] = change(bench.driver.gpus[pci])

    bench.driver.reset = reset  # type: ignore[method-assign]


def test_links_that_do_not_train_again_are_waited_for_and_told() -> None:
    bench = Bench()
    bench.change(links=LINKS)
    _resets_to(bench, lambda gpu: replace(gpu, links=(replace(LINKS[0], active=False), *LINKS[1:])))
    findings = bench.qualify()
    assert why(findings, "reset-links") == (False, "fewer NVLinks are active than before")
    assert why(findings, "reset-takes")[0] is True
    assert bench.clock.now() - START >= SETTLE_SECONDS
    assert not proves(findings)
    assert bench.is_as_before()


def test_links_that_train_again_in_time_are_as_before() -> None:
    bench = Bench()
    bench.change(links=LINKS)
    start = bench.clock.now()
    _resets_to(bench, lambda gpu: replace(gpu, links=()))
    real = bench.driver.read

    def read(deadline_seconds: float) -> NodeReading:
        if bench.driver.done_resets and bench.clock.now() - start > 5:
            bench.change(links=LINKS)
        return real(deadline_seconds)

    bench.driver.read = read  # type: ignore[method-assign]
    assert why(bench.qualify(), "reset-links") == (True, "")


@pytest.mark.parametrize(
    "error",
    [hung(), Refused("it failed"), Conflict(f"GPU {GPU_A} was GPU-1 and is GPU-2 after its reset")],
    ids=["hangs", "refused", "another GPU"],
)
def test_a_reset_that_fails_is_no_proof(error: EdgeError) -> None:
    bench = Bench()
    bench.driver.troubles["reset"] = error
    findings = bench.qualify()
    assert why(findings, "reset-idle") == (False, str(error))
    assert why(findings, "reset-takes") == (None, "not tried, for reset-idle is not so")
    assert not proves(findings)
    assert bench.is_as_before()


def test_another_gpu_at_the_place_is_found_out() -> None:
    bench = Bench()
    _resets_to(bench, lambda gpu: replace(gpu, uuid="GPU-another"))
    assert why(bench.qualify(), "reset-idle")[0] is False


def test_a_gpu_that_is_not_shown_after_its_drain_is_not_reset() -> None:
    bench = Bench()
    real = bench.driver.read

    def read(deadline_seconds: float) -> NodeReading:
        reading = real(deadline_seconds)
        hidden = "undrain" in bench.driver.calls
        return replace(reading, gpus=reading.gpus[1:]) if hidden else reading

    bench.driver.read = read  # type: ignore[method-assign]
    findings = bench.qualify()
    assert why(findings, "drain-lifts") == (False, "it is not shown again")
    assert "reset" not in bench.driver.calls
    assert bench.is_as_before()


@pytest.mark.parametrize("call", ["persistence off", "stop nvidia-dcgm.service", "undrain"])
def test_a_tool_that_hangs_ends_it_and_everything_is_put_back(call: str) -> None:
    bench = Bench()
    bench.driver.troubles[call] = hung()
    real = bench.clock.sleep

    def sleep(seconds: float) -> None:
        bench.driver.troubles.clear()
        real(seconds)

    bench.clock.sleep = sleep  # type: ignore[method-assign]
    with pytest.raises(Unreachable, match="did not answer"):
        bench.qualify()
    assert bench.is_as_before()


def test_a_signal_between_any_two_steps_ends_it_with_everything_put_back() -> None:
    for step in range(9):
        asked: list[int] = []

        def stopped(asked: list[int] = asked, step: int = step) -> bool:
            asked.append(1)
            return len(asked) > step

        bench = Bench(stopped=stopped)
        with pytest.raises(Refused, match="stopped by a signal"):
            bench.qualify()
        assert len(asked) == step + 1
        assert bench.is_as_before()


def test_a_service_that_starts_again_by_itself_ends_it_before_the_reset() -> None:
    bench = Bench()
    bench.driver.stop = bench.driver.start  # type: ignore[method-assign]
    with pytest.raises(Refused, match="see what starts it again"):
        bench.qualify()
    assert "reset" not in bench.driver.calls
    assert bench.is_as_before()


def test_marks_that_cannot_be_written_down_are_not_made() -> None:
    bench = Bench()
    bench.marks.broken = True
    with pytest.raises(Refused, match="store is full"):
        bench.qualify()
    assert bench.driver.calls == []


# --- which GPU ----------------------------------------------------------------------------------------------------


def test_the_bus_alone_knows_too_little() -> None:
    bench = Bench()
    real = bench.driver.read
    bench.driver.read = lambda deadline_seconds: replace(real(deadline_seconds), road="sysfs")  # type: ignore[method-assign]
    with pytest.raises(Unreachable, match="neither NVML nor nvidia-smi"):
        bench.choose()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"persistence": None}, "persistence mode"),
        ({"uuid": None}, "not all is told"),
        ({"model": None}, "not all is told"),
        ({"minor": None}, "device number is not known"),
        ({"lost": True, "persistence": None}, "does not answer"),
        ({"mig": True}, "MIG is on"),
        ({"recovery_action": "Drain and Reset"}, "asks for a recovery"),
    ],
)
def test_a_gpu_of_which_too_little_is_known_or_that_is_ill_is_refused(changes: dict[str, object], words: str) -> None:
    bench = Bench()
    bench.change(**changes)
    with pytest.raises(Refused, match=words):
        bench.choose()


def test_a_gpu_with_an_open_case_is_refused() -> None:
    with pytest.raises(Refused, match="open case"):
        Bench().choose(cases=frozenset({GPU_A}))
    assert Bench().choose(cases=frozenset({GPU_B})).reading.pci == GPU_A


def test_numbers_count_as_the_kernel_module_lists_them() -> None:
    bench = Bench()
    bench.driver.drained.add(GPU_A)
    listed = tuple(Gpu(index, pci, None, None, index) for index, pci in enumerate((GPU_A, GPU_B)))
    assert bench.choose("1", listed=listed).reading.pci == GPU_B
    with pytest.raises(Refused, match="drained already"):
        bench.choose("0", listed=listed)


# --- what a killed one left ---------------------------------------------------------------------------------------


def _left(bench: Bench) -> None:
    save_marks(bench.marks, Marks(GPU_A, drained=True, persistence=True, services=(UNIT,)))
    bench.driver.drained.add(GPU_A)
    bench.driver.running.clear()
    bench.change(persistence=False)


def test_what_was_left_is_undone_and_told() -> None:
    bench = Bench()
    _left(bench)
    undone = undo_unfinished(bench.undoing)
    assert undone.trouble == ()
    assert [sentence for sentence in undone.done if GPU_A in sentence or UNIT in sentence] == list(undone.done)
    assert len(undone.done) == 3
    assert bench.is_as_before()


def test_nothing_left_is_nothing_done() -> None:
    bench = Bench()
    assert undo_unfinished(bench.undoing) == undo_unfinished(bench.undoing)
    assert bench.driver.calls == []


@pytest.mark.parametrize("call", ["undrain", f"start {UNIT}", "persistence on"])
def test_what_cannot_be_undone_stays_written_down_and_the_rest_is_undone(call: str) -> None:
    bench = Bench()
    _left(bench)
    bench.driver.troubles[call] = Refused("not now")
    undone = undo_unfinished(bench.undoing)
    assert len(undone.trouble) == 1
    assert "not now" in undone.trouble[0]
    assert len(undone.done) == 2
    assert load_marks(bench.marks) is not None
    bench.driver.troubles.clear()
    assert undo_unfinished(bench.undoing).trouble == ()
    assert bench.is_as_before()


def test_the_late_work_of_a_killed_ones_tool_is_undone_too() -> None:
    bench = Bench()
    _left(bench)
    real = bench.clock.sleep

    def sleep(seconds: float) -> None:
        bench.driver.drained.add(GPU_A)
        real(seconds)

    bench.clock.sleep = sleep  # type: ignore[method-assign]
    assert undo_unfinished(bench.undoing).trouble == ()
    assert bench.is_as_before()


@pytest.mark.parametrize(
    "saved",
    [
        {"pci": GPU_A},
        {"pci": 5, "drained": True, "persistence": None, "services": []},
        {"pci": GPU_A, "drained": "yes", "persistence": None, "services": []},
        {"pci": GPU_A, "drained": True, "persistence": "on", "services": []},
        {"pci": GPU_A, "drained": True, "persistence": None, "services": "abc"},
        {"pci": GPU_A, "drained": True, "persistence": None, "services": [5]},
    ],
)
def test_marks_that_cannot_be_used_are_refused_with_what_to_do(saved: dict[str, object]) -> None:
    bench = Bench()
    bench.marks.save(saved)
    with pytest.raises(Refused, match="undo that by hand"):
        undo_unfinished(bench.undoing)
    assert bench.driver.calls == []
