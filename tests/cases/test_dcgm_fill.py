"""What of an exporter's values stands in for what the tools do not tell, field by field; the tools always win."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from gpuward.isolation.dcgm import FILLERS, LAST_XID, DcgmReading, Readings, Unit, filled, xids_told
from gpuward.model.node import EccCounts, GpuReading, NodeReading, Remap
from tests.kit.merging import GPU_A, GPU_B
from tests.kit.pretend_driver import a_reading

WELL = a_reading(GPU_A, 0)
SILENT = replace(
    WELL, ecc=EccCounts(volatile=None, aggregate=None), remap=Remap(pending=None, failed=None), recovery_action=None
)
UNITS = {filler.number: filler.unit for filler in FILLERS} | {LAST_XID: Unit.XID}
BAD = {311: 4, 395: 1, 396: 1, 1523: 2}


def told(field: int, value: int | None, **where: Any) -> DcgmReading:
    place = {"gpu": 0, "uuid": WELL.uuid, "pci": None, "mig_instance": None} | where
    return DcgmReading(field=field, unit=UNITS[field], value=value, **place)


def scrape(*readings: DcgmReading) -> Readings:
    return {number: tuple(one for one in readings if one.field == number) for number in UNITS}


def fill(gpu: GpuReading, *readings: DcgmReading, apart: frozenset[str] = frozenset()) -> GpuReading:
    node = NodeReading(road="nvml", driver_version=None, cuda_version=None, gpus=(gpu, a_reading(GPU_B, 1)))
    after = filled(node, scrape(*readings), apart=apart)
    assert after.gpus[1:] == node.gpus[1:], "the other GPU is left as it is"
    return after.gpus[0]


def values(gpu: GpuReading) -> dict[int, Any]:
    return {311: gpu.ecc.volatile, 395: gpu.remap.failed, 396: gpu.remap.pending, 1523: gpu.recovery_action}


def test_what_the_tools_do_not_tell_is_filled_in() -> None:
    got = fill(SILENT, *[told(field, value) for field, value in BAD.items()])
    assert values(got) == {311: 4, 395: True, 396: True, 1523: "Reboot"}


def test_what_the_tools_tell_wins() -> None:
    assert fill(WELL, *[told(field, value) for field, value in BAD.items()]) == WELL


@pytest.mark.parametrize("field", BAD)
def test_each_field_goes_to_its_own_place_only(field: int) -> None:
    got = values(fill(SILENT, told(field, BAD[field])))
    assert [number for number, value in got.items() if value is not None] == [field]


@pytest.mark.parametrize("field", BAD)
def test_values_of_instances_and_blanks_and_contradictions_are_unknown(field: int) -> None:
    bad = BAD[field]
    assert fill(SILENT, told(field, bad, mig_instance=7), told(field, bad, mig_instance=9)) == SILENT
    assert fill(SILENT, told(field, None)) == SILENT
    assert fill(SILENT, told(field, bad), told(field, 0)) == SILENT
    assert values(fill(SILENT, told(field, bad), told(field, bad)))[field], "told twice, as for two pods"


@pytest.mark.parametrize("field", [395, 396])
def test_a_flag_that_is_neither_0_nor_1_is_unknown(field: int) -> None:
    assert fill(SILENT, told(field, 2)) == SILENT
    assert values(fill(SILENT, told(field, 0)))[field] is False


def test_a_recovery_action_that_is_not_in_the_book_is_named_so() -> None:
    assert fill(SILENT, told(1523, 9)).recovery_action == "Unknown (9)"


def test_a_gpu_is_known_by_its_uuid_and_by_its_address_where_none_is_told() -> None:
    pending = {"field": 396, "value": 1}
    assert fill(SILENT, told(**pending, uuid=None, pci=GPU_A)).remap.pending is True
    assert fill(SILENT, told(**pending, uuid="GPU-of-a-card-before", pci=GPU_A)) == SILENT
    assert fill(SILENT, told(**pending, uuid=None, pci=None)) == SILENT
    assert fill(SILENT, told(**pending, uuid=None, pci=GPU_B)).remap.pending is None
    nameless = replace(SILENT, uuid=None)
    assert fill(nameless, told(**pending, pci=GPU_A)).remap.pending is True
    assert fill(SILENT, told(**pending, uuid=str(WELL.uuid).upper())).remap.pending is True


def test_a_lost_gpu_and_one_that_was_just_worked_on_are_left_alone() -> None:
    lost = replace(SILENT, lost=True)
    assert fill(lost, told(396, 1)) == lost
    assert fill(SILENT, told(396, 1), apart=frozenset({GPU_A})) == SILENT


def test_a_value_in_another_unit_is_not_taken() -> None:
    assert fill(SILENT, replace(told(396, 1), unit=Unit.ROWS)) == SILENT


def test_the_last_xid_is_told_by_address_also_of_an_instance_and_never_fills_anything() -> None:
    xids = [told(LAST_XID, 79), told(LAST_XID, 31, mig_instance=7), told(LAST_XID, 0), told(LAST_XID, None)]
    foreign = told(LAST_XID, 62, uuid="GPU-of-nobody")
    places = {GPU_A: WELL.uuid, GPU_B: None}
    assert set(xids_told(scrape(*xids, foreign), places)) == {(GPU_A, 79), (GPU_A, 31)}
    assert fill(SILENT, *xids) == SILENT


lines = some.builds(
    told,
    some.sampled_from(sorted(UNITS)),
    some.none() | some.integers(0, 1 << 63),
    uuid=some.sampled_from([None, WELL.uuid, "GPU-x"]),
    pci=some.sampled_from([None, GPU_A, GPU_B]),
    mig_instance=some.none() | some.integers(0, 14),
)


@given(some.lists(lines, max_size=8))
def test_no_scrape_changes_what_the_tools_told(scraped: list[DcgmReading]) -> None:
    assert fill(WELL, *scraped) == WELL
