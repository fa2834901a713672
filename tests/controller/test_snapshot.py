"""What a snapshot tells of a cluster reaches the table, and one that tells nothing is a server alone."""

from dataclasses import replace
from functools import cache

from gpuward.isolation.decide import Snapshot, decide
from gpuward.isolation.machine import settle
from gpuward.model.case import ON_A_CLUSTER, Case, CaseState, EffectKind, Mode, Outcome
from gpuward.model.fault import Fault
from gpuward.model.scene import GpuSight
from tests.kit.merging import GPU_A, told, xid

NOW = 1_790_000_100.0
FREE = GpuSight(present=True, lost=False, work=(), display=False)


@cache
def faults(code: int) -> tuple[Fault, ...]:
    return tuple(told([xid(code, 0)]).faults)


def snapshot(code: int = 79) -> Snapshot:
    return Snapshot(
        now=NOW,
        mode=Mode.ISOLATE,
        node="gpu-1",
        cases=(),
        faults=faults(code),
        gpus={GPU_A: FREE},
        reach=ON_A_CLUSTER,
    )


def done(case: Case) -> Case:
    for effect in case.effects:
        case = settle(case, effect.number, Outcome.DONE, at=NOW)
    return case


def lived(first: Snapshot) -> Case:
    """Decide until nothing changes, every effect done."""
    cases: tuple[Case, ...] = ()
    for _ in range(10):
        cases = tuple(map(done, decide(replace(first, cases=cases)).cases))
    (case,) = cases
    return case


def test_on_a_server_alone_the_cluster_is_never_asked_for_anything() -> None:
    alone = Snapshot(now=NOW, mode=Mode.ISOLATE, node="gpu-1", cases=(), faults=faults(79), gpus={GPU_A: FREE})
    kinds = {effect.kind for effect in lived(alone).effects}
    assert kinds == {EffectKind.EVIDENCE, EffectKind.DRAIN, EffectKind.RESTORE}


def test_where_nobody_has_looked_at_the_pods_the_gpu_is_not_free() -> None:
    assert lived(snapshot()).state is CaseState.EVACUATING


def test_the_pods_of_a_case_are_listed_and_evicted_and_when_they_are_gone_it_goes_on() -> None:
    case_id = decide(snapshot()).cases[0].id
    held = replace(snapshot(), victims={case_id: ("work/a",)})
    case = lived(held)
    assert case.victims == ("work/a",)
    assert EffectKind.EVICT in {effect.kind for effect in case.effects}
    gone = decide(replace(snapshot(), cases=(case,), victims={case_id: ()}))
    assert gone.cases[0].state is CaseState.PARKED


def test_it_says_who_still_saves_and_what_became_of_that() -> None:
    case_id = decide(snapshot()).cases[0].id
    saving = replace(snapshot(), saving={case_id: "job train"})
    case = lived(saving)
    assert (case.state, case.because) == (CaseState.SAVING, "Jobs save their state: job train")
    saved = decide(replace(snapshot(), cases=(case,), saved={case_id: "All have saved."}))
    assert "All have saved." in [one.because for one in saved.happenings]


def test_without_a_word_or_a_standby_nothing_is_done_where_one_is_needed() -> None:
    (case,) = decide(replace(snapshot(), approval=True)).cases
    assert (case.state, case.effects) == (CaseState.SUSPECT, ())
    (case,) = decide(replace(snapshot(31), standby="no node stands by")).cases
    assert (case.state, case.effects) == (CaseState.SUSPECT, ())
    assert "no node stands by" in case.because
    assert decide(replace(snapshot(), standby="no node stands by")).cases[0].state is CaseState.FENCED
