"""The notice as a pod's annotation holds it: the same after reading, small, and nothing else is taken for one."""

import json
import re
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuward.isolation.noticing import PERSISTS, Earlier, notice_of, planned, verb_of
from gpuward.model.case import Case
from gpuward.model.job import JobRef
from gpuward.model.level import FaultClass, Level
from gpuward.model.objects.notice import (
    MOST_BAD,
    MOST_BYTES,
    After,
    BadNode,
    Notice,
    Noticed,
    Verb,
    opted_in,
    read_notice,
    write_notice,
)
from gpuward.model.objects.values import ObjectError

DOCS = Path(__file__).parents[2] / "docs"
JOB = JobRef("JobSet", "jobset.x-k8s.io/v1alpha2", "work", "llm", "s-1")
CASE = Case(
    id="c-gpu-1.b1.k5",
    node="gpu-1",
    gpu="0000:86:00",
    gpu_uuid="GPU-1",
    fault="gpu-1.b1.k5",
    code=79,
    kind="xid",
    title="GPU has fallen off the bus",
    level=Level.P0,
    fault_class=FaultClass.HARDWARE,
    parks=False,
    opened_at=1000.0,
)
names = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?", fullmatch=True)
times = st.integers(0, 4_000_000_000).map(float)
bad_nodes = st.builds(
    BadNode, names, st.lists(st.from_regex(r"GPU-[0-9a-f]{8,60}", fullmatch=True), max_size=8).map(tuple)
)
notices = st.builds(
    Notice,
    id=names,
    job=names | st.just(""),
    generation=st.integers(1, 1_000_000),
    verb=st.sampled_from(Verb),
    reason=st.text(max_size=1024).filter(lambda text: text.isprintable()),
    bad=st.lists(bad_nodes, max_size=MOST_BAD).map(tuple),
    issued=times,
    deadline=times,
    after=st.sampled_from(After),
)


@given(notices)
def test_it_is_the_same_after_reading_and_has_every_key(notice: Notice) -> None:
    text = write_notice(notice)
    assert read_notice(text) == notice
    assert set(json.loads(text)) == {one.name for one in fields(Notice)}
    assert len(text) <= MOST_BYTES


@given(st.text() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_what_is_none_is_refused_and_nothing_else_happens(text: str) -> None:
    with pytest.raises(ObjectError):
        read_notice(text)


def test_what_is_too_long_is_not_even_parsed() -> None:
    with pytest.raises(ObjectError, match="more than"):
        read_notice("[" * (MOST_BYTES + 1))


@pytest.mark.parametrize(("kind", "code"), [("xid", 48), ("xid", 62), ("xid", 79), ("node_lost", None)])
def test_a_rank_whose_gpu_is_gone_cannot_finish_its_step(kind: str, code: int | None) -> None:
    assert verb_of(kind, code) is Verb.PERSIST


@pytest.mark.parametrize(("kind", "code"), [("xid", 31), ("xid", 45), ("xid", 94), ("xid", None), ("nvlink", 79)])
def test_after_a_soft_fault_it_can(kind: str, code: int | None) -> None:
    assert verb_of(kind, code) is Verb.SAVE


def test_every_row_has_its_source() -> None:
    assert all(row.source for row in PERSISTS)


def test_the_same_plan_tells_each_pod_the_same_again() -> None:
    plan = planned(CASE, JOB, now=1000.0, save_seconds=30.0, ranks=("p-2", "p-1"), earlier=())
    assert plan.persist == ("p-1", "p-2")
    assert notice_of(plan, CASE.id, "p-1").verb is Verb.PERSIST
    assert notice_of(plan, CASE.id, "p-9").verb is Verb.SAVE
    assert write_notice(notice_of(plan, CASE.id, "p-9")) == write_notice(notice_of(plan, CASE.id, "p-9"))
    assert (plan.generation, plan.deadline) == (1, 1030.0)
    assert plan.bad == (BadNode("gpu-1", ("GPU-1",)),)


def before(generation: int, deadline: float, *nodes: str) -> Earlier:
    bad = tuple(BadNode(node, ("GPU-9",)) for node in nodes)
    return Earlier(generation, Noticed(JOB, generation, issued=0.0, deadline=deadline, bad=bad))


def test_a_job_that_still_saves_keeps_its_deadline_and_hears_of_all_nodes() -> None:
    earlier = [before(3, 1010.0, "gpu-2", "gpu-1"), Earlier(7), before(4, 900.0, "gpu-3")]
    plan = planned(CASE, JOB, now=1000.0, save_seconds=30.0, ranks=(), earlier=earlier)
    assert (plan.generation, plan.deadline) == (8, 1010.0)
    assert plan.bad == (
        BadNode("gpu-1", ("GPU-1", "GPU-9")),
        BadNode("gpu-2", ("GPU-9",)),
        BadNode("gpu-3", ("GPU-9",)),
    )


def test_of_many_bad_nodes_the_cases_own_is_told_for_certain() -> None:
    earlier = [before(1, 900.0, *(f"gpu-{number}" for number in range(2, 40)))]
    plan = planned(CASE, JOB, now=1000.0, save_seconds=30.0, ranks=(), earlier=earlier)
    assert len(plan.bad) == MOST_BAD
    assert plan.bad[0].node == "gpu-1"


@pytest.mark.parametrize(
    ("value", "wants"), [("true", True), ("", True), ("v2", True), ("false", False), ("False", False)]
)
def test_a_job_opts_in_by_the_label(value: str, wants: bool) -> None:  # noqa: FBT001  a row
    assert opted_in({"gpuward.io/checkpoint": value}) is wants
    assert not opted_in({})


def test_its_page_names_every_key_and_verb_and_its_example_can_be_read() -> None:
    page = (DOCS / "json.md").read_text()
    part = page.split("## A notice")[1].split("\n## ")[0]
    told = set(re.findall(r"`([a-z]+)`", part))
    assert {one.name for one in fields(Notice)} <= told
    example = re.search(r"```json\n(.*?)```", part, re.DOTALL)
    assert example is not None
    assert read_notice(example[1]).verb is Verb.SAVE
    owners = (DOCS / "cluster.md").read_text().split("## For the owner of a job")[1].split("\n## ")[0]
    assert all(f"`{verb}`" in owners for verb in Verb)
