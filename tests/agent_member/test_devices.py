"""Which GPU the id of a device means: every form that device plugins give, and what is not guessed."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from gpuward.agent.bench import Remembered
from gpuward.agent.devices import ID_FORMS, gpu_of, places_of
from tests.kit.merging import GPU_A, GPU_B

A, B = "GPU-aaaaaaaa-0000-4000-8000-0123456789ab", "GPU-bbbbbbbb-0000-4000-8000-0123456789ab"
SLICE = "MIG-0a0a0a0a-0000-5000-8000-0123456789ab"
_A = Remembered(GPU_A, A, minor=4, persistence=True, links_active=0, pcie_width=16)
MEMORY = {GPU_B: replace(_A, pci=GPU_B, uuid=B, minor=1, mig_uuids=(SLICE,)), GPU_A: _A}
PLACES = places_of(MEMORY)


@pytest.mark.parametrize(
    ("device", "gpu"),
    [
        (A, GPU_A),
        (f"{A}::3", GPU_A),
        (f"{B}::0", GPU_B),
        (SLICE, GPU_B),
        (f"{SLICE}::11", GPU_B),
        (f"MIG-{B}/7/0", GPU_B),
        (f"MIG-{B}/7/0::1", GPU_B),
        ("0", GPU_A),
        ("1::2", GPU_B),
        ("1:0", GPU_B),
        ("1:0::2", GPU_B),
        ("nvidia4", GPU_A),
        ("nvidia1/gi3", GPU_B),
        ("nvidia1/vgpu0", GPU_B),
        ("nvidia1/gi3/vgpu1", GPU_B),
        (f"{A}-3", None),
        (f"{A}::", None),
        (f"{A}::x", None),
        ("GPU-cccccccc-0000-4000-8000-0123456789ab", None),
        ("MIG-unknown", None),
        (f"MIG-{B}", None),
        (f"MIG-{SLICE}/7/0", None),
        ("2", None),
        ("00", None),
        ("nvidia0", None),
        ("nvidia4/other", None),
        ("nvidia.com/gpu=0", None),
        ("k8s.gpu.nvidia.com/claim=1-gpu-0", None),
        ("GPU-", None),
        ("", None),
        ("٣", None),
    ],
)
def test_an_id_means_a_gpu_or_none_for_certain(device: str, gpu: str | None) -> None:
    assert gpu_of(device, PLACES) == gpu


def test_every_form_is_of_another_kind_and_says_where_it_is_from() -> None:
    known = [A, SLICE, f"MIG-{B}/7/0", "0", "nvidia4"]
    assert [[bool(row.form.fullmatch(device)) for row in ID_FORMS] for device in known] == [
        [row is one for row in ID_FORMS] for one in ID_FORMS
    ]
    assert all(row.source for row in ID_FORMS)


def test_numbers_go_by_pci_order_also_in_large_domains() -> None:
    far = "10000:01:00"
    places = places_of({far: replace(_A, pci=far), GPU_A: _A})
    assert [gpu_of(str(number), places) for number in range(2)] == [GPU_A, far]


def test_the_page_shows_an_id_of_every_form_and_no_other() -> None:
    page = (Path(__file__).parents[2] / "docs" / "cluster.md").read_text("utf-8")
    table = page.split("| id | GPU |")[1].split("\n\n")[0]
    shown = re.findall("`([^`]+)`", table)
    fitting = [[row for row in ID_FORMS if row.form.fullmatch(device)] for device in shown]
    assert all(len(rows) == 1 for rows in fitting)
    assert {row.source for rows in fitting for row in rows} == {row.source for row in ID_FORMS}
