"""A drill on the bench: it tells what would be done to the machine, finds what is missing, and changes nothing."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from gpuward.agent.bench import Job, Remembered, Result, Tools
from gpuward.agent.rehearsal import rehearse
from gpuward.agent.sight import remember
from gpuward.model.case import ON_A_SERVER, Effect, EffectKind, Mode, Outcome
from gpuward.model.node import EccCounts
from gpuward.ports import EdgeError, Refused
from tests.kit.lives import a_case
from tests.kit.merging import GPU_A
from tests.kit.pretend import PretendClock
from tests.kit.pretend_driver import PretendDriver, a_holder, hung

SERVICE = "nvidia-dcgm.service"
READS = {"describe"}
"""Of what the pretend driver notes, this alone changes nothing."""


class Untouchable(PretendDriver):
    """Whatever would change the machine is an error of the test."""

    def _never(self, *words: object, **named: object) -> None:
        raise AssertionError(f"a drill changed the machine: {words} {named}")

    set_persistence = set_drained = reset = stop = start = _never


@dataclass
class Drill:
    """A drill over one GPU; `kept` and `told` are what went out of it."""

    driver: PretendDriver = field(default_factory=Untouchable)
    kept: list[str] = field(default_factory=list)
    told: list[object] = field(default_factory=list)
    check: Callable[[str, str | None], None] | None = None
    was: Remembered | None = None
    case: str = "c-1"

    def keep(self, case: str, name: str, content: bytes) -> str:
        """Keep evidence."""
        self.kept.append(f"{case} {name} {len(content) > 0}")
        return ""

    def does(self, kind: EffectKind, number: int = 1, *, before: tuple[Effect, ...] = ()) -> Result:
        """Rehearse one effect."""
        tools = Tools(
            driver=self.driver,
            holders=self.driver,
            services=self.driver,
            evidence=self,
            clock=PretendClock(),
            kernel_log=lambda: b"the kernel log",
            check=self.check,
            forget=lambda: self.told.append("forget"),
            intend=self.told.append,
        )
        effect = Effect(number, kind, 0.0)
        was = self.was or remember(self.driver.gpus[GPU_A])
        case = a_case(id=self.case, gpu=GPU_A, drill=Mode.REPAIR, effects=(*before, effect))
        result = rehearse(Job(case=case, effect=effect, gpu=was, paused=(), lost=False), tools)
        assert result.why.startswith("drill: ")
        assert self.told == []
        return Result(result.outcome, result.why.removeprefix("drill: "))


@pytest.fixture
def drill() -> Drill:
    drill = Drill()
    drill.driver.held[0] = [a_holder(10, "nv-hostengine", service=SERVICE)]
    drill.driver.running = {SERVICE}
    return drill


def test_evidence_is_really_kept(drill: Drill) -> None:
    assert drill.does(EffectKind.EVIDENCE, 2) == Result(Outcome.DONE, "kept as in a real case, 4 files")
    assert drill.kept == [
        "c-1 02-holders.txt True",
        "c-1 02-nvidia-smi-q.txt True",
        "c-1 02-processes.txt True",
        "c-1 02-kernel.log True",
    ]


def test_a_drain_is_told_with_persistence_mode_and_how_it_is_now(drill: Drill) -> None:
    words = "persistence mode would be turned off, and the GPU would be drained; it is not drained now"
    assert drill.does(EffectKind.DRAIN) == Result(Outcome.DONE, words)
    drill.was = replace(remember(drill.driver.gpus[GPU_A]), persistence=False)
    drill.driver.drained.add(GPU_A)
    assert drill.does(EffectKind.DRAIN).why == "the GPU would be drained; it is drained now"
    assert drill.does(EffectKind.UNDRAIN).why == "the drain of the GPU would be undone; it is drained now"


def test_the_known_services_that_hold_the_gpu_are_named(drill: Drill) -> None:
    assert drill.does(EffectKind.PAUSE) == Result(Outcome.DONE, f"{SERVICE} would be stopped")
    drill.driver.running.clear()
    assert "no known service" in drill.does(EffectKind.PAUSE).why


def test_a_reset_that_work_prevents_is_refused_and_a_service_does_not_prevent_it(drill: Drill) -> None:
    assert drill.does(EffectKind.RESET) == Result(Outcome.DONE, "no work holds the GPU, so it would be reset")
    drill.driver.held[0].append(a_holder())
    assert drill.does(EffectKind.RESET) == Result(Outcome.REFUSED, "it is held by train (pid 4321)")


def test_the_drill_of_a_cluster_does_not_wait_for_work_and_says_what_would_have_to_go_before_the_reset(
    drill: Drill,
) -> None:
    drill.case = "c-gpu-1.drill.xid-48.0000-18-00.drill"
    drill.driver.held[0].append(a_holder())
    words = "it is held by train (pid 4321) now; a real case waits until that has gone, and then it would be reset"
    assert drill.does(EffectKind.RESET) == Result(Outcome.DONE, words)
    drill.was = replace(remember(drill.driver.gpus[GPU_A]), minor=None)
    assert drill.does(EffectKind.RESET).outcome is Outcome.REFUSED, "what a real case could not see is found"


def test_what_would_be_put_back_is_told(drill: Drill) -> None:
    service = f"{SERVICE} would be started again"
    assert drill.does(EffectKind.RESTORE).why == f"{service}; persistence mode would be turned on again"
    drained = Effect(1, EffectKind.DRAIN, 0.0, Outcome.DONE)
    assert drill.does(EffectKind.RESTORE, 2, before=(drained,)).why == service
    drill.driver.running.clear()
    assert drill.does(EffectKind.RESTORE, 2, before=(drained,)).why == "nothing would have to be put back"


def test_the_proof_is_really_read_and_the_check_command_is_not_run(drill: Drill) -> None:
    assert drill.does(EffectKind.VERIFY).why.endswith("there is no check command")
    drill.check = lambda pci, uuid: drill.told.append((pci, uuid))
    result = drill.does(EffectKind.VERIFY)
    assert (result.outcome, result.why.split("; ")[-1]) == (Outcome.DONE, "the check command is not run in a drill")
    ill = replace(drill.driver.gpus[GPU_A], ecc=EccCounts(volatile=1, aggregate=1))
    drill.driver.gpus[GPU_A] = ill
    result = drill.does(EffectKind.VERIFY)
    assert (result.outcome, "uncorrectable errors" in result.why) == (Outcome.FAILED, True)


@pytest.mark.parametrize("kind", sorted(ON_A_SERVER))
def test_a_drill_changes_nothing(kind: EffectKind) -> None:
    drill = Drill(PretendDriver())
    drill.driver.held[0] = [a_holder(10, "nv-hostengine", service=SERVICE)]
    drill.driver.running = {SERVICE}
    before = dict(drill.driver.gpus)
    drill.does(kind, 2)
    assert set(drill.driver.calls) <= READS
    assert (drill.driver.gpus, drill.driver.drained, drill.driver.running) == (before, set(), {SERVICE})
    assert drill.driver.receipts == {}


@pytest.mark.parametrize("kind", [EffectKind.PAUSE, EffectKind.RESET])
def test_without_a_device_number_it_is_refused_as_in_a_real_case(drill: Drill, kind: EffectKind) -> None:
    drill.was = replace(remember(drill.driver.gpus[GPU_A]), minor=None)
    assert drill.does(kind).outcome is Outcome.REFUSED
    assert "device number" in drill.does(kind).why


class Broken(Untouchable):
    """A driver whose tools are missing or hang."""

    trouble: EdgeError = hung()

    def is_drained(self, pci: str, deadline_seconds: float) -> bool:
        """Say what is missing."""
        del pci, deadline_seconds
        raise self.trouble


@pytest.mark.parametrize("kind", [EffectKind.DRAIN, EffectKind.UNDRAIN])
def test_a_missing_tool_or_permission_is_found(kind: EffectKind) -> None:
    driver = Broken()
    driver.trouble = Refused("no permission; run as root")
    assert Drill(driver).does(kind) == Result(Outcome.REFUSED, "no permission; run as root")
    driver.trouble = hung()
    assert Drill(driver).does(kind).outcome is Outcome.FAILED
