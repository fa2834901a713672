"""Generations by the names that drivers give GPUs."""

import pytest

from gpuward.model.architecture import Architecture, architecture_of, is_on_a_board


@pytest.mark.parametrize(
    ("model", "architecture"),
    [
        ("Tesla P100-SXM2-16GB", Architecture.PASCAL),
        ("Tesla V100-SXM2-32GB", Architecture.VOLTA),
        ("Tesla V100-PCIE-32GB", Architecture.VOLTA),
        ("Tesla T4", Architecture.TURING),
        ("A100-SXM4-40GB", Architecture.AMPERE),
        ("NVIDIA A100-SXM4-80GB", Architecture.AMPERE),
        ("NVIDIA A100 80GB PCIe", Architecture.AMPERE),
        ("NVIDIA A800-SXM4-80GB", Architecture.AMPERE),
        ("NVIDIA A30", Architecture.AMPERE),
        ("NVIDIA RTX A6000", Architecture.AMPERE),
        ("NVIDIA GeForce RTX 3090", Architecture.AMPERE),
        ("NVIDIA L4", Architecture.ADA),
        ("NVIDIA L40S", Architecture.ADA),
        ("NVIDIA RTX 6000 Ada Generation", Architecture.ADA),
        ("NVIDIA H100 80GB HBM3", Architecture.HOPPER),
        ("NVIDIA H20-3e", Architecture.HOPPER),
        ("NVIDIA GH200 480GB", Architecture.HOPPER),
        ("NVIDIA H200 NVL", Architecture.HOPPER),
        ("NVIDIA B200", Architecture.BLACKWELL),
        ("NVIDIA B300 SXM6 AC", Architecture.BLACKWELL),
        ("NVIDIA GB300", Architecture.BLACKWELL),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", Architecture.BLACKWELL),
        ("NVIDIA X900", None),
        ("Quadro RTX 6000", None),
        ("", None),
        (None, None),
    ],
)
def test_a_name_tells_the_generation(model: str | None, architecture: Architecture | None) -> None:
    assert architecture_of(model) is architecture


def test_a_board_is_known_by_its_name() -> None:
    assert is_on_a_board("Tesla V100-SXM2-32GB")
    assert is_on_a_board("NVIDIA B300 SXM6 AC")
    assert not is_on_a_board("NVIDIA A100 80GB PCIe")
    assert not is_on_a_board(None)
