"""Readings with settings, and with a dcgm-exporter beside the driver's tools: what it adds, and what it never does."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from gpuward.agent.telemetry import Pace, Telemetry
from gpuward.isolation.catalogue.load import load
from gpuward.isolation.dcgm import DcgmReading, Readings, Unit
from gpuward.isolation.findings import Grading, by_row, grading_of
from gpuward.isolation.grade import Policy
from gpuward.isolation.saved import SavedError
from gpuward.model.case import Case, CaseState, Effect, EffectKind, Outcome
from gpuward.model.happening import Happening, What
from gpuward.model.level import FaultClass, Level
from gpuward.model.node import EccCounts, Remap
from gpuward.ports import EdgeError, Unreachable
from tests.kit.at_once import AtOnce
from tests.kit.merging import GPU_A
from tests.kit.pretend import PretendClock
from tests.kit.pretend_driver import PretendDriver, hung

UNITS = {230: Unit.XID, 311: Unit.ERRORS, 396: Unit.YES_NO, 1523: Unit.RECOVERY_ACTION}


@dataclass
class PretendExporter:
    """Implements Exporter; `values` are those of GPU_A by field. `trouble` is what it answers instead."""

    values: dict[int, int] = field(default_factory=dict)
    trouble: EdgeError | None = None
    asked: list[float] = field(default_factory=list)

    def read(self, deadline_seconds: float) -> Readings:
        """Return the values."""
        self.asked.append(deadline_seconds)
        if self.trouble is not None:
            raise self.trouble
        return {
            number: (DcgmReading(number, UNITS[number], value, gpu=0, uuid=None, pci=GPU_A, mig_instance=None),)
            for number, value in self.values.items()
        }


@dataclass
class Desk:
    """Telemetry over a pretend driver and exporter, and what it said and warned."""

    driver: PretendDriver = field(default_factory=PretendDriver)
    exporter: PretendExporter | None = field(default_factory=PretendExporter)
    clock: PretendClock = field(default_factory=PretendClock)
    grading: Grading = by_row
    log: set[tuple[str, int]] | None = None
    cases: list[Case] = field(default_factory=list)
    written: list[Happening] = field(default_factory=list)
    warned: list[str] = field(default_factory=list)
    one: Telemetry | None = None

    @property
    def telemetry(self) -> Telemetry:
        """Return the telemetry, the same one until `restart`."""
        if self.one is None:
            log = self.log
            self.one = Telemetry(
                self.driver,
                self.clock,
                hands=AtOnce(),
                pace=Pace(poll_seconds=30.0, read_seconds=20.0, exporter_seconds=3.0),
                node="n",
                grading=self.grading,
                exporter=self.exporter,
                log_showed=None if log is None else lambda: log,
            )
        return self.one

    def restart(self, grading: Grading | None = None) -> None:
        """Begin anew from what was packed."""
        saved = self.telemetry.pack()
        self.one = None
        self.grading = grading or self.grading
        self.telemetry.unpack(saved)

    def polls(self, times: int = 1) -> "Desk":
        """Let so many readings be taken."""
        for _ in range(times):
            self.clock.wait(30)
            for _turn in range(2):
                self.written += self.telemetry.turn(self.cases, self.warned.append)
        return self

    def silence(self, **fields: Any) -> "Desk":
        """Let the tools not tell of GPU_A what an exporter may tell, or what is given."""
        silent: dict[str, Any] = {
            "ecc": EccCounts(volatile=None, aggregate=None),
            "remap": Remap(pending=None, failed=None),
            "recovery_action": None,
        }
        self.driver.gpus[GPU_A] = replace(self.driver.gpus[GPU_A], **(silent | fields))
        return self

    def levels(self) -> dict[str, Level]:
        """Return the kinds that stand and their levels."""
        return {fault.kind: fault.verdict.level for fault in self.telemetry.faults()}

    def said(self) -> list[str]:
        """Return the sentences that were said."""
        return [one.because for one in self.written if one.what is What.SAID]


def a_case(*effects: Effect, state: CaseState = CaseState.PROBATION) -> Case:
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


def set_to(**levels: Level) -> Grading:
    return grading_of(load(), Policy(levels=levels))


# --- settings ---------------------------------------------------------------------------------------------------------


def test_what_a_reading_shows_is_graded_by_the_settings() -> None:
    desk = Desk(grading=set_to(row_remap_pending=Level.P0)).silence(remap=Remap(pending=True, failed=False)).polls()
    assert desk.levels() == {"row_remap_pending": Level.P0}
    assert [(one.what, one.outcome) for one in desk.written] == [(What.OBSERVED, "P0")]
    assert "as set in the settings" in desk.written[0].because


def test_a_restart_with_other_settings_grades_what_stands_anew_and_tells_it_once() -> None:
    desk = Desk(grading=set_to(row_remap_pending=Level.IGNORE)).silence(remap=Remap(pending=True, failed=False))
    desk.polls(2)
    first = desk.telemetry.faults()[0]
    desk.restart(set_to())
    assert desk.levels() == {"row_remap_pending": Level.P1}, "also before the first reading"
    desk.polls(3)
    assert [one.outcome for one in desk.written] == ["ignore", "P1"]
    raised = desk.telemetry.faults()[0]
    assert raised.id == first.id
    assert (raised.last.wall or 0.0) > (first.last.wall or 0.0), "what was closed over it meanwhile does not cover it"
    desk.restart()
    desk.polls(2)
    assert len(desk.written) == 2


# --- the exporter -----------------------------------------------------------------------------------------------------


def test_an_exporter_that_fills_in_makes_findings() -> None:
    desk = Desk().silence().polls()
    assert desk.levels() == {}
    assert desk.exporter is not None
    desk.exporter.values = {396: 1, 1523: 4}
    desk.polls()
    assert desk.levels() == {"row_remap_pending": Level.P1, "recovery_action": Level.P1}
    assert desk.telemetry.memory[GPU_A].recovery_action == "Drain and Reset"
    assert desk.exporter.asked == [3.0, 3.0]


def test_without_an_exporter_the_same_readings_show_nothing() -> None:
    assert Desk(exporter=None).silence().polls(2).levels() == {}


def test_its_growth_acts_and_a_count_of_the_tools_is_never_held_against_it() -> None:
    desk = Desk(exporter=PretendExporter({311: 2})).silence().polls(2)
    assert desk.levels() == {}
    desk.silence(ecc=EccCounts(volatile=9, aggregate=None)).polls()
    assert desk.levels() == {}, "the tools count from another start"
    desk.silence().polls()
    assert desk.levels() == {}
    assert desk.exporter is not None
    desk.exporter.values = {311: 3}
    desk.polls()
    assert desk.levels() == {"ecc_uncorrectable": Level.P0}
    assert "from 2 to 3" in desk.written[-1].because


def test_the_tools_win() -> None:
    desk = Desk(exporter=PretendExporter({311: 9, 396: 1, 1523: 2})).polls(3)
    assert desk.levels() == {}


def test_tools_that_do_not_answer_have_no_stand_in() -> None:
    desk = Desk(exporter=PretendExporter({396: 1})).silence()
    desk.driver.troubles["read"] = hung()
    desk.polls(4)
    assert desk.exporter is not None
    assert desk.exporter.asked == []
    assert desk.telemetry.reading is None
    assert desk.telemetry.trouble


def test_the_bus_alone_is_not_filled_in() -> None:
    desk = Desk(exporter=PretendExporter({396: 1})).silence()
    read = desk.driver.read
    desk.driver.read = (  # type: ignore[method-assign]  # this server's tools are not there
        lambda deadline_seconds: replace(read(deadline_seconds), road="sysfs")
    )
    desk.polls(3)
    assert desk.telemetry.of(GPU_A) == desk.driver.gpus[GPU_A]


def test_one_that_does_not_answer_is_warned_of_once_until_it_answers_again() -> None:
    trouble = Unreachable("http://localhost:9400/metrics does not answer (timed out); see whether dcgm-exporter runs")
    desk = Desk(exporter=PretendExporter(trouble=trouble)).silence(remap=Remap(pending=True, failed=False))
    desk.polls(3)
    assert len(desk.warned) == 1
    assert "does not answer" in desk.warned[0]
    assert desk.levels() == {"row_remap_pending": Level.P1}, "the readings go on"
    assert not desk.telemetry.trouble
    assert desk.exporter is not None
    desk.exporter.trouble = None
    desk.polls()
    desk.exporter.trouble = trouble
    desk.polls(2)
    assert len(desk.warned) == 2


def test_its_values_from_before_a_reset_are_not_taken_after_it() -> None:
    desk = Desk(exporter=PretendExporter({396: 1})).silence()
    reset = Effect(
        number=1, kind=EffectKind.RESET, asked_at=0.0, outcome=Outcome.DONE, ended_at=desk.clock.now() + 29.0
    )
    desk.cases = [a_case(reset)]
    desk.polls(3)
    assert desk.levels() == {}, "it may not have polled since"
    desk.polls(3)
    assert desk.levels() == {"row_remap_pending": Level.P1}


# --- its Xids against the log -----------------------------------------------------------------------------------------


def test_an_xid_that_the_log_did_not_show_is_said_once_and_never_acts() -> None:
    desk = Desk(exporter=PretendExporter({230: 79}), log=set()).polls()
    assert desk.said() == [], "the line may be on its way"
    desk.polls(3)
    (sentence,) = desk.said()
    assert f"the last Xid of GPU {GPU_A} was 79" in sentence
    assert "is the right log followed?" in sentence
    assert desk.levels() == {}
    desk.restart()
    desk.polls(3)
    assert len(desk.said()) == 1


def test_an_xid_that_the_log_showed_is_not_said_also_when_a_restart_has_forgotten_its_line() -> None:
    desk = Desk(exporter=PretendExporter({230: 79}), log={(GPU_A, 79)}).polls(3)
    assert desk.log is not None
    desk.log.clear()
    desk.restart()
    desk.polls(3)
    assert desk.said() == []
    assert desk.exporter is not None
    desk.exporter.values = {230: 48}
    desk.polls(2)
    assert len(desk.said()) == 1


def test_a_line_that_comes_a_scrape_later_is_in_time() -> None:
    desk = Desk(exporter=PretendExporter({230: 79}), log=set()).polls()
    assert desk.log is not None
    desk.log.add((GPU_A, 79))
    assert desk.polls(2).said() == []


@pytest.mark.parametrize(("log", "code"), [(None, 79), (set(), 0)], ids=["no log to hold it against", "no Xid"])
def test_nothing_is_said_where_there_is_nothing_to_say(log: set[tuple[str, int]] | None, code: int) -> None:
    assert Desk(exporter=PretendExporter({230: code}), log=log).polls(3).said() == []


def test_an_xid_of_a_gpu_that_is_gone_is_still_held_against_the_log() -> None:
    desk = Desk(exporter=PretendExporter({230: 79}), log=set()).polls()
    desk.silence()
    del desk.driver.gpus[GPU_A]
    assert len(desk.polls(2).said()) == 1


def test_what_must_survive_is_asked_to_be_saved() -> None:
    desk = Desk(exporter=PretendExporter({230: 79}), log=set()).polls()
    assert desk.telemetry.has_changed(), "which GPUs there are"
    desk.polls()
    assert desk.telemetry.has_changed(), "which Xid was said"
    desk.polls()
    assert not desk.telemetry.has_changed()


def test_saved_xids_of_another_shape_are_not_used() -> None:
    saved = Desk().polls().telemetry.pack()
    with pytest.raises(SavedError, match="Xids of the exporter"):
        Desk().telemetry.unpack({**saved, "xids_settled": [["x"]]})
