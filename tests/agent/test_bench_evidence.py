"""The evidence that the bench keeps, and that a reset is asked for by its key, over pretend ports."""

from dataclasses import dataclass, field, replace

import pytest

from gpuward.agent.bench import LOOK_SECONDS, READ_SECONDS, Job, Remembered, Tools, perform
from gpuward.agent.sight import remember
from gpuward.model.case import Effect, EffectKind, Outcome
from gpuward.model.node import GpuHolder, Lineage
from gpuward.ports import Refused, Unreachable
from tests.kit.lives import a_case
from tests.kit.merging import GPU_A
from tests.kit.pretend import PretendClock
from tests.kit.pretend_driver import PretendDriver, a_holder, hung


@dataclass
class Cabinet:
    """Implements EvidenceRoom in memory; each file takes a while to write."""

    clock: PretendClock
    files: dict[str, bytes] = field(default_factory=dict)

    def keep(self, case: str, name: str, content: bytes) -> str:
        """Keep it."""
        assert case == "c-1"
        self.clock.wait(0.01)
        self.files[name] = content
        return ""


@dataclass
class Slow(PretendDriver):
    """Its looks take time, and what time `describe` got is noted."""

    clock: PretendClock = field(default_factory=PretendClock)
    look_seconds: float = 0.0
    given: list[float] = field(default_factory=list)

    def of(self, minor: int) -> tuple[GpuHolder, ...]:
        """Return who holds the GPU, after a while."""
        self.clock.wait(self.look_seconds)
        return super().of(minor)

    def describe(self, pci: str, deadline_seconds: float) -> str:
        """Note the time that is given, and take it all."""
        self.given.append(deadline_seconds)
        self.clock.wait(deadline_seconds)
        return super().describe(pci, deadline_seconds)


@dataclass
class Desk:
    """A bench with its tools and one GPU."""

    driver: Slow = field(default_factory=Slow)
    lost: bool = False
    minor: int | None = 0

    def __post_init__(self) -> None:
        self.cabinet = Cabinet(self.driver.clock)
        self.tools = Tools(
            driver=self.driver,
            holders=self.driver,
            services=self.driver,
            evidence=self.cabinet,
            clock=self.driver.clock,
            kernel_log=lambda: b"the kernel log",
        )

    def job(self, kind: EffectKind = EffectKind.EVIDENCE, number: int = 1) -> Job:
        """Return a job on its GPU."""
        was: Remembered = replace(remember(self.driver.gpus[GPU_A]), minor=self.minor)
        return Job(
            case=a_case(id="c-1", gpu=GPU_A), effect=Effect(number, kind, 0.0), gpu=was, paused=(), lost=self.lost
        )

    def keep(self, number: int = 1) -> dict[str, bytes]:
        """Do an evidence effect and return all files."""
        result = perform(self.job(number=number), self.tools)
        assert result.outcome is Outcome.DONE, result.why
        return self.cabinet.files


def test_before_a_drain_the_gpu_and_its_holders_are_kept() -> None:
    assert [*Desk().keep()] == ["01-holders.txt", "01-nvidia-smi-q.txt"]


def test_before_a_repair_the_processes_and_the_kernel_log_are_kept_too() -> None:
    desk = Desk()
    desk.tools = replace(desk.tools, processes=lambda: b"pid\n1\n")
    assert desk.keep(3) == {
        "03-holders.txt": b"pid\tkind\tname\tservice\tsession\tstarted\tcgroup\tpod_uid\tcontainer_id\tcommand\n",
        "03-nvidia-smi-q.txt": f"GPU {GPU_A}\n".encode(),
        "03-processes.txt": b"pid\n1\n",
        "03-kernel.log": b"the kernel log",
    }


def test_without_anything_that_lists_the_processes_that_is_said() -> None:
    assert b"nothing" in Desk().keep(3)["03-processes.txt"]


def test_that_the_processes_cannot_be_seen_is_evidence_and_no_kernel_log_is_none() -> None:
    def unseen() -> bytes:
        raise Unreachable("/proc cannot be read; mount it")

    desk = Desk()
    desk.tools = replace(desk.tools, processes=unseen, kernel_log=unseen)
    assert perform(desk.job(number=3), desk.tools).outcome is Outcome.FAILED
    assert desk.cabinet.files["03-processes.txt"] == b"not seen: /proc cannot be read; mount it\n"
    assert "03-kernel.log" not in desk.cabinet.files


def test_each_holder_has_where_it_came_from() -> None:
    desk = Desk()
    desk.driver.held[0] = [a_holder(77), a_holder(78)]
    desk.tools = replace(
        desk.tools, lineage=lambda pid: Lineage(4711, "2026-01-02T03:04:05Z", "0::/pod") if pid == 77 else None
    )
    assert desk.keep()["01-holders.txt"].decode().splitlines()[1:] == [
        "77\twork\ttrain\t-\t4711\t2026-01-02T03:04:05Z\t0::/pod\t-\t-\ttrain",
        "78\twork\ttrain\t-\t-\t-\t-\t-\t-\ttrain",
    ]


def test_a_holder_with_a_hostile_name_is_one_line() -> None:
    desk = Desk()
    desk.driver.held[0] = [replace(a_holder(), name="a\tb\n\x1b[2J\u202e", command="\udcff" * 9999)]
    (line,) = desk.keep()["01-holders.txt"].decode().splitlines()[1:]
    cells = line.split("\t")
    assert cells[2] == "a?b??[2J?"
    assert cells[-1] == "?" * 1024


def test_before_a_drain_the_look_takes_two_seconds_in_all() -> None:
    desk = Desk(Slow(look_seconds=1.5))
    started = desk.driver.clock.monotonic()
    desk.keep()
    assert desk.driver.clock.monotonic() - started <= LOOK_SECONDS + 0.05
    assert desk.driver.given == [pytest.approx(LOOK_SECONDS - 1.5 - 0.01)]


def test_when_the_holders_take_all_the_time_the_tool_is_not_asked_and_it_is_said() -> None:
    desk = Desk(Slow(look_seconds=5.0))
    assert desk.keep()["01-nvidia-smi-q.txt"].startswith(b"not asked")
    assert desk.driver.given == []


def test_before_a_repair_there_is_more_time() -> None:
    desk = Desk()
    desk.keep(3)
    assert desk.driver.given[0] > READ_SECONDS / 2


def test_that_the_tool_is_silent_is_kept() -> None:
    desk = Desk()
    desk.driver.troubles["describe"] = hung()
    assert desk.keep()["01-nvidia-smi-q.txt"].startswith(b"not told: nvidia-smi did not answer")


def test_of_a_lost_gpu_the_last_portrait_is_kept_with_its_time() -> None:
    desk = Desk(lost=True)
    assert [*desk.keep()] == ["01-holders.txt"]
    desk.tools = replace(desk.tools, portrait=lambda pci: (1_700_000_000.4, f"GPU {pci} \udcff\n"))
    first, rest = desk.keep()["01-nvidia-smi-q-last.txt"].decode().split("\n", 1)
    assert first.endswith("2023-11-14T22:13:20Z")
    assert rest == f"GPU {GPU_A} ?\n"
    assert desk.driver.given == []


def test_of_a_gpu_that_answers_no_old_portrait_is_kept() -> None:
    desk = Desk()
    desk.tools = replace(desk.tools, portrait=lambda _pci: (0.0, "old"))
    assert "01-nvidia-smi-q-last.txt" not in desk.keep()


def reset(desk: Desk, number: int = 4) -> tuple[Outcome, str]:
    result = perform(desk.job(EffectKind.RESET, number), desk.tools)
    return result.outcome, result.why


def test_an_effect_that_resets_does_so_once_though_it_is_performed_again_and_work_has_come_back() -> None:
    desk = Desk()
    assert reset(desk) == (Outcome.DONE, "")
    desk.driver.held[0] = [a_holder()]
    assert reset(desk) == (Outcome.DONE, "")
    assert desk.driver.done_resets == 1
    assert reset(desk, 9) == (Outcome.REFUSED, "it is held by train (pid 4321)")
    assert desk.driver.done_resets == 1


@pytest.mark.parametrize(
    ("trouble", "outcome"), [(Refused("no"), Outcome.REFUSED), (Unreachable("no"), Outcome.FAILED)]
)
def test_a_reset_that_went_wrong_has_the_same_outcome_again(trouble: Refused | Unreachable, outcome: Outcome) -> None:
    desk = Desk()
    desk.driver.troubles["reset"] = trouble
    first = reset(desk)
    desk.driver.troubles.clear()
    assert (first, reset(desk)) == ((outcome, "no"), (outcome, "no"))
    assert desk.driver.calls.count("reset") == 1


def test_a_reset_whose_receipt_cannot_be_told_is_refused_and_not_done() -> None:
    def untold(pci: str, *, key: str) -> bool:
        raise Refused(f"the receipt of {pci} {key} is broken; look at the GPU")

    desk = Desk()
    desk.driver.has_reset = untold  # type: ignore[method-assign]  # this folder is damaged
    assert reset(desk) == (Outcome.REFUSED, f"the receipt of {GPU_A} c-1-4 is broken; look at the GPU")
    assert desk.driver.done_resets == 0
