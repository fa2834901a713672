"""On which models and drivers a reset is proven, as it is kept."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from gpuward.model.qualified import (
    BELIEFS,
    BY_ID,
    Finding,
    Qualification,
    Qualified,
    proves,
    read_qualified,
    with_qualification,
)
from gpuward.sim.machines.beliefs import beliefs

H100 = "NVIDIA H100 80GB HBM3"
TRUE = tuple(Finding(belief.id, holds=True) for belief in BELIEFS)


def a_try(driver: str = "575.51.02", *, findings: tuple[Finding, ...] = TRUE, at: float = 1.0) -> Qualification:
    """Return a try in which all was found true."""
    return Qualification(model=H100, driver=driver, at=at, uuid="GPU-1", findings=findings)


def but(belief: str, *, holds: bool | None) -> tuple[Finding, ...]:
    """Return findings that are all true but one."""
    return tuple(Finding(one.belief, holds=holds if one.belief == belief else True) for one in TRUE)


def test_a_proof_counts_for_its_model_and_driver_alone() -> None:
    known = read_qualified(with_qualification(None, a_try()))
    assert known.knows(H100, "575.51.02")
    assert not known.knows(H100, "580.65.06")
    assert not known.knows("NVIDIA H200", "575.51.02")
    assert not known.knows(None, None)
    assert not Qualified().knows(H100, "575.51.02")


@pytest.mark.parametrize("belief", [belief.id for belief in BELIEFS if belief.needed])
@pytest.mark.parametrize("holds", [False, None])
def test_what_a_reset_needs_must_be_true(belief: str, holds: bool | None) -> None:  # noqa: FBT001  a value of the case
    assert not proves(but(belief, holds=holds))
    assert not read_qualified(with_qualification(None, a_try(findings=but(belief, holds=holds)))).proven


@pytest.mark.parametrize("belief", [belief.id for belief in BELIEFS if not belief.needed])
def test_what_a_reset_does_not_need_may_be_false(belief: str) -> None:
    assert proves(but(belief, holds=False))


def test_a_later_try_takes_the_place_of_an_earlier_one() -> None:
    saved = with_qualification(None, a_try())
    saved = with_qualification(saved, a_try("580.65.06"))
    saved = with_qualification(saved, a_try(findings=but("reset-idle", holds=False), at=2.0))
    assert read_qualified(saved).proven == {(H100, "580.65.06")}
    assert [one["at"] for one in saved["qualifications"]] == [1.0, 2.0]


def test_a_proof_that_lacks_a_belief_of_this_version_proves_nothing() -> None:
    saved = with_qualification(None, a_try())
    saved["qualifications"][0]["beliefs"] = [
        one for one in saved["qualifications"][0]["beliefs"] if one["id"] != "drain-files"
    ]
    assert not read_qualified(saved).proven


_JSON = some.recursive(
    some.none() | some.booleans() | some.text(max_size=8) | some.integers(),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(some.dictionaries(some.sampled_from(["qualifications", "x"]), _JSON, max_size=2))
def test_what_is_no_proof_proves_nothing_and_harms_nothing(saved: dict[str, Any]) -> None:
    assert not read_qualified(saved).proven
    assert read_qualified(with_qualification(saved, a_try())).knows(H100, "575.51.02")


def test_a_belief_that_the_pretend_machine_knows_too_says_the_same() -> None:
    for belief in BELIEFS:
        assert belief.id in beliefs(), belief.id
        assert belief.source
        assert belief.look
    said = {one.id: one.sentence for one in beliefs().values()}
    alike = {"drain-by-address", "persistence-takes", "drain-files", "drain-lifts", "reset-idle", "reset-not-drained"}
    for name in alike:
        assert BY_ID[name].sentence.rstrip(".").split("; ")[0] in said[name]
