"""What others write, meant ill or broken by hand, keeps nobody else from being told what becomes of his GPUs."""

from dataclasses import replace
from typing import Any, cast

import pytest

from gpuward.controller.heed import DEFECT
from tests.controller.test_hostile import a_fleet, help_comes, tell


@pytest.mark.parametrize("at", ["9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59Z", "9900-01-01T00:00:00Z"])
async def test_a_time_to_which_no_wait_can_be_added_is_not_read(at: str) -> None:
    fleet = a_fleet("gpu-2")
    name = tell(fleet, "k900", first={"wall": at}, last={"wall": at})
    async with fleet.running() as controller:
        await help_comes(fleet, controller)
        (said,) = [one for one in controller.newest.troubles if name in one]
    assert "spec.first.wall must be a time in the years 1 to 9899" in said


async def test_a_case_and_a_node_of_which_nothing_can_be_told_leave_the_others_their_events_and_conditions() -> None:
    fleet = a_fleet("gpu-2")
    async with fleet.running() as controller:
        faults = [fleet.fault(79, node) for node in ("gpu-1", "gpu-2")]
        await fleet.time.pass_by(0.1)
        await fleet.time.run(controller.round())
        cases, nodes = controller.picture.cases.objects, controller.picture.gpu_nodes.objects
        name = f"c-{faults[0]}"
        cases[name] = replace(cases[name], spec=replace(cases[name].spec, opened_at=1e18))
        nodes["gpu-1"] = replace(nodes["gpu-1"], gpus=(cast("Any", None),))
        await fleet.time.run(controller.voice.speak())
    told = controller.voice.troubles
    assert any(f"nothing can be told of the case {name}: {DEFECT}" in one for one in told), told
    assert any(f"the condition of node gpu-1 cannot be told: {DEFECT}" in one for one in told), told
    assert "gpu-2" in {one["regarding"]["name"] for one in fleet.events()}
    condition = fleet.condition("gpu-2")
    assert condition is not None
    assert condition["status"] == "True"
