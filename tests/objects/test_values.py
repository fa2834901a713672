"""Objects of the model to JSON and back: the same comes back, what is too long is cut, what does not fit is refused."""

import json
import math
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuward.model.case import Case, CaseState, Effect, EffectKind, Mode, Order, Outcome
from gpuward.model.fault import Evidence, Fault, Verdict
from gpuward.model.gpu import Mig
from gpuward.model.happening import What
from gpuward.model.level import FaultClass, Level
from gpuward.model.objects.gpu_case import (
    CaseOrder,
    CaseStatus,
    GpuCase,
    TimelineEntry,
    Victim,
    as_case,
    read_gpu_case,
    spec_of,
    status_of,
    write_gpu_case,
)
from gpuward.model.objects.gpu_fault import (
    CURSOR,
    FaultEvidence,
    FaultStatus,
    GpuFault,
    Judged,
    gpu_fault,
    read_gpu_fault,
    safe_part,
    write_gpu_fault,
)
from gpuward.model.objects.gpu_node import (
    GpuNode,
    GpuState,
    Health,
    NodeGpu,
    read_gpu_node,
    summary_of,
    write_gpu_node,
)
from gpuward.model.objects.head import Head
from gpuward.model.objects.kinds import KINDS, ObjectKind
from gpuward.model.objects.limits import PART_OF_NAME
from gpuward.model.objects.shapes import shape_of, spelled
from gpuward.model.objects.standby_pool import (
    StandbyPool,
    StandbyTaint,
    TaintEffect,
    read_standby_pool,
    write_standby_pool,
)
from gpuward.model.objects.values import ObjectError, read, write
from gpuward.model.scene import GpuSight
from gpuward.model.signal import Moment
from tests.kit import objects as kit

ANY = st.characters(exclude_categories=())
"""Every character, halves of characters too."""
VERDICT = Verdict(
    level=Level.P0,
    fault_class=FaultClass.HARDWARE,
    action="RESTART_BM",
    because="It fell off the bus.",
    rules=("R-79",),
    waits=False,
    parks=False,
    explained_by=None,
)
FAULT = Fault(
    id="gpu-1.1a2b3c4d.k17",
    kind="xid",
    code=79,
    title="GPU has fallen off the bus",
    node="gpu-1",
    boot="1a2b3c4d",
    pci="0000:3b:00",
    gpu_uuid="GPU-1",
    first=Moment(wall=1.5, uptime=2.5),
    last=Moment(wall=None, uptime=3.0),
    count=2,
    pid=12,
    process="python",
    mig=Mig(gi=1, ci=None),
    verdict=VERDICT,
    evidence=(Evidence(line=17, text="NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."),),
    details={"links": [1, 2]},
)
CASE = Case(
    id="c-gpu-1.1a2b3c4d.k17",
    node="gpu-1",
    gpu="0000:3b:00",
    gpu_uuid="GPU-1",
    fault=FAULT.id,
    code=79,
    kind="xid",
    title=FAULT.title,
    level=Level.P0,
    fault_class=FaultClass.HARDWARE,
    parks=True,
    opened_at=100.25,
    state=CaseState.FENCED,
    since=100.25,
    effects=(Effect(number=1, kind=EffectKind.DRAIN, asked_at=100.25),),
    because="It fell off the bus.",
)


def over_the_wire(written: Any) -> Any:
    """Return what an API server gives back."""
    return json.loads(json.dumps(written))


@given(kit.GPU_CASES)
def test_a_case_comes_back_as_it_was(case: GpuCase) -> None:
    assert read_gpu_case(over_the_wire(write_gpu_case(case))) == case


@given(kit.gpu_faults())
def test_a_fault_comes_back_as_it_was(fault: GpuFault) -> None:
    assert read_gpu_fault(over_the_wire(write_gpu_fault(fault))) == fault


@given(kit.GPU_NODES)
def test_a_node_comes_back_as_it_was(node: GpuNode) -> None:
    assert read_gpu_node(over_the_wire(write_gpu_node(node))) == node


@given(kit.STANDBY_POOLS)
def test_a_pool_comes_back_as_it_was(pool: StandbyPool) -> None:
    assert read_standby_pool(over_the_wire(write_standby_pool(pool))) == pool


@given(st.text(ANY, max_size=3000), st.lists(st.text(ANY, max_size=20), max_size=200))
def test_hostile_words_are_cut_and_always_fit(because: str, lines: list[str]) -> None:
    entries = tuple(TimelineEntry(at=float(at), what=What.SAID, because=line) for at, line in enumerate(lines))
    status = CaseStatus(
        state=CaseState.PARKED, since=1.0, level=Level.P0, because=because, due=because, timeline=entries
    )
    kept = read(CaseStatus, over_the_wire(write(status)), "status")
    assert len(kept.because) <= 1024
    assert kept.because == "" or because[:1000].encode("utf-8", "replace").decode() in kept.because
    assert [entry.at for entry in kept.timeline] == [entry.at for entry in entries][-128:], "the newest are kept"
    assert read(CaseStatus, over_the_wire(write(kept)), "status") == kept


@given(kit.TIMES)
def test_a_time_comes_back_to_the_microsecond(at: float) -> None:
    entry = TimelineEntry(at=at, what=What.SAID, because="")
    assert read(TimelineEntry, write(entry), "timeline[0]") == entry


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("1970-01-01T00:00:01Z", 1.0),
        ("1970-01-01T01:00:01+01:00", 1.0),
        ("1970-01-01T00:00:01.123456789Z", 1.123456),
        ("1969-12-31T23:59:59.5Z", -0.5),
    ],
)
def test_times_are_read_in_any_zone_and_to_any_digit(text: str, at: float) -> None:
    assert read(TimelineEntry, {"at": text, "what": "said", "because": "x"}, "timeline[0]").at == at


@pytest.mark.parametrize("at", [math.nan, math.inf, 1e30, -1e12])
def test_a_time_that_is_none_is_refused_by_its_name(at: float) -> None:
    with pytest.raises(ObjectError, match=r"since must be a time"):
        write(CaseStatus(state=CaseState.SUSPECT, since=at, level=Level.P0))


def test_a_name_that_does_not_fit_is_refused_and_never_cut() -> None:
    spec = spec_of(replace(CASE, gpu_uuid="x" * 65))
    with pytest.raises(ObjectError, match=r"^gpuUUID must be 1 to 64 characters"):
        write(spec)


def test_what_a_newer_version_wrote_is_passed_over() -> None:
    written = write_gpu_case(GpuCase(Head(CASE.id), spec_of(CASE)))
    written["spec"]["weather"] = "fine"
    assert as_case(read_gpu_case(written)) == CASE


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ({}, "metadata.name is missing"),
        ({"kind": "GPUFault", "metadata": {"name": "x"}}, "kind must be GPUCase"),
        ({"metadata": {"name": "x"}}, "spec is no object"),
        ({"metadata": {"name": "x"}, "spec": {}}, "spec.node is missing"),
        ({"metadata": {"name": "x"}, "spec": {"node": 7}}, "spec.node must be"),
        ({"metadata": ["x"], "spec": {}}, "metadata.name is missing"),
    ],
)
def test_a_broken_object_is_refused_by_the_name_of_its_field(broken: Any, said: str) -> None:
    with pytest.raises(ObjectError) as refused:
        read_gpu_case(broken)
    assert said in str(refused.value)


def test_an_unknown_word_is_refused_with_those_that_are_known() -> None:
    written = write_gpu_case(GpuCase(Head(CASE.id), spec_of(CASE), status_of(CASE)))
    written["status"]["state"] = ["fenced"]
    with pytest.raises(ObjectError, match=r"status\.state must be one of suspect, fenced"):
        read_gpu_case(written)


def test_the_case_of_the_standalone_agent_comes_back_whole() -> None:
    for case in (
        CASE,
        replace(CASE, drill=Mode.REPAIR, code=None, gpu_uuid=None),
        replace(CASE, victims=("train/worker-0", "train/worker-1")),
        replace(CASE, gpu="", state=CaseState.PARKED, due="A reset is due.", entered_with=1),
    ):
        found = over_the_wire(write_gpu_case(GpuCase(Head(case.id), spec_of(case))))
        assert as_case(read_gpu_case(found)) == case, "one CREATE tells all, before any status is written"
    effect = Effect(number=1, kind=EffectKind.RESET, asked_at=1.0, outcome=Outcome.FAILED, ended_at=2.0, why="busy")
    later = replace(
        CASE,
        state=CaseState.PARKED,
        since=200.5,
        level=Level.P0,
        effects=(effect,),
        order=Order.RETRY,
        forced=True,
        approved=True,
        victims=("train/worker-0",),
        due="Look.",
    )
    found = over_the_wire(write_gpu_case(GpuCase(Head(CASE.id), spec_of(CASE), status_of(later))))
    assert as_case(read_gpu_case(found)) == later


def test_a_status_keeps_what_a_case_does_not_tell() -> None:
    victim = Victim(pod="train/worker-0", uid="u-1", asked_at=5.0)
    before = replace(status_of(CASE), standby="gpu-9", heard=3, victims=(victim,))
    case = replace(CASE, state=CaseState.EVACUATING, victims=("train/worker-0", "train/worker-1"))
    after = status_of(case, before)
    assert (after.state, after.standby, after.heard) == (CaseState.EVACUATING, "gpu-9", 3)
    assert after.victims == (victim, Victim(pod="train/worker-1"))


def test_orders_of_people_are_heard_once_and_in_order() -> None:
    orders = (CaseOrder(number=3, what=Order.RELEASE), CaseOrder(number=2, what=Order.RETRY))
    case = GpuCase(Head(CASE.id), replace(spec_of(CASE), orders=orders))
    assert [one.number for one in case.unheard] == [2, 3]
    assert [one.number for one in replace(case, status=replace(status_of(CASE), heard=2)).unheard] == [3]


def test_a_fault_is_told_by_a_name_that_is_safe_and_always_the_same() -> None:
    told = gpu_fault(FAULT, "gpu-1")
    assert told.head.name == "gpu-1.1a2b3c4d.k17"
    assert gpu_fault(replace(FAULT, id=f"{FAULT.id}+"), "gpu-1").head.name == "gpu-1.1a2b3c4d.k17-again"
    assert read_gpu_fault(over_the_wire(write_gpu_fault(told))) == told


@given(st.text(min_size=1, max_size=100), st.text(min_size=1, max_size=100))
def test_every_boot_and_cursor_makes_a_name(one: str, other: str) -> None:
    for limit in (CURSOR, PART_OF_NAME):
        part = safe_part(one, limit)
        assert 1 <= len(part) <= limit.most
        assert "." not in part
        assert part == safe_part(one, limit)
    assert safe_part(f"f{one}" + "1" * 80, CURSOR) != safe_part(f"f{other}" + "2" * 80, CURSOR)


def test_a_fault_is_due_until_it_is_judged_and_again_when_it_worsens() -> None:
    told = gpu_fault(replace(FAULT, verdict=replace(VERDICT, level=Level.P2)), "gpu-1")
    assert told.is_due
    judged = Judged(
        at=1.0,
        level=Level.IGNORE,
        fault_class=FaultClass.APPLICATION,
        seen_level=Level.P2,
        seen_class=FaultClass.HARDWARE,
    )
    evidence = FaultEvidence(
        at=2.0,
        level=Level.P2,
        fault_class=FaultClass.HARDWARE,
        verdict=VERDICT,
        last=Moment(wall=None, uptime=None),
        count=2,
    )
    same = replace(told, status=FaultStatus(evidence=evidence, judged=judged))
    assert not same.is_due, "the controller was milder on purpose: it is not asked again for that"
    assert replace(told, status=FaultStatus(evidence=replace(evidence, level=Level.P0), judged=judged)).is_due
    other = replace(evidence, fault_class=FaultClass.DRIVER)
    assert replace(told, status=FaultStatus(evidence=other, judged=judged)).is_due
    assert replace(same, status=FaultStatus(evidence=replace(evidence, level=Level.P0))).level is Level.P0


def test_details_that_are_too_long_lose_their_last_values_not_the_fault() -> None:
    told = gpu_fault(replace(FAULT, details={"first": 1, "long": "x" * 5000, "last": 2}), "gpu-1")
    kept = read_gpu_fault(over_the_wire(write_gpu_fault(told))).spec.details
    assert kept == {"first": 1}


def test_unknown_is_told_apart_from_nothing() -> None:
    unknown = GpuSight(present=None, lost=False, work=None, display=False)
    idle = replace(unknown, present=True, work=())
    for sight in (unknown, idle):
        assert read(GpuSight, over_the_wire(write(sight)), "sight") == sight
    assert "work" not in write(unknown)
    assert write(idle)["work"] == []


def test_a_node_says_in_a_few_words_how_its_gpus_are() -> None:
    sight = GpuSight(present=True, lost=False, work=(), display=False)
    active = NodeGpu(pci="0000:3b:00", state=GpuState.ACTIVE, health=Health.HEALTHY, sight=sight)
    assert summary_of(()) == "none seen"
    assert summary_of((active, active)) == "2 of 2 active"
    assert summary_of((active, replace(active, state=GpuState.LOST))) == "1 of 2 active, 1 lost"


def test_fields_are_spelled_as_kubernetes_does() -> None:
    assert [spelled(name) for name in ("node_name", "gpu_uuid", "id", "memory_mib", "fault_class", "uid")] == [
        "nodeName",
        "gpuUUID",
        "id",
        "memoryMiB",
        "class",
        "uid",
    ]


@pytest.mark.parametrize(
    ("details", "said"),
    [("[]", "must be a JSON object"), ("{", "is not JSON"), ("[" * 4000, "is not JSON"), (7, "must be text")],
)
def test_details_that_are_none_are_refused(details: Any, said: str) -> None:
    written = over_the_wire(write_gpu_fault(gpu_fault(FAULT, "gpu-1")))
    written["spec"]["details"] = details
    with pytest.raises(ObjectError, match=rf"spec\.details {said}"):
        read_gpu_fault(written)


@pytest.mark.parametrize("at", ["yesterday", "2026-11-30T03:12:07", "0001-01-01T00:00:00+23:59", 7])
def test_a_text_that_is_no_time_is_refused(at: Any) -> None:
    with pytest.raises(ObjectError, match=r"entry\.at"):
        read(TimelineEntry, {"at": at, "what": "said", "because": "x"}, "entry")


def test_a_record_that_refuses_its_values_is_refused_by_its_name() -> None:
    @dataclass(frozen=True, slots=True)
    class Even:
        """Takes even numbers only."""

        number: int

        def __post_init__(self) -> None:
            """Check it."""
            if self.number % 2:
                raise ValueError("it is odd")

    assert read(Even, {"number": 2}, "it") == Even(2)
    with pytest.raises(ObjectError, match="it: it is odd"):
        read(Even, {"number": 1}, "it")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.resource.kind)
def test_whatever_is_wrong_with_a_field_it_is_named(kind: ObjectKind) -> None:
    for part, where in ((kind.spec, "spec"), (kind.status, "status")):
        shape = shape_of(part)
        assert write(read(part, kit.full(shape), where))
        for field, wrong in kit.broken(shape, kit.full(shape), where):
            with pytest.raises(ObjectError) as refused:
                read(part, wrong, where)
            assert str(refused.value).startswith(field), wrong


def test_words_of_a_field_with_a_default_are_read_where_they_are_told() -> None:
    assert read(StandbyTaint, {}, "taint") == StandbyTaint()
    told = StandbyTaint(key="example.com/free", value="yes", effect=TaintEffect.NO_EXECUTE)
    assert read(StandbyTaint, write(told), "taint") == told


@given(kit.values_of(shape_of(Case)))
def test_no_field_of_a_case_is_forgotten(case: Case) -> None:
    assert as_case(GpuCase(Head(case.id), spec_of(case), status_of(case))) == case
