"""Which node takes the place of a sick one: the same shape, and of the finer points as many as can be had."""

from dataclasses import replace

import pytest

from gpuward.isolation.standby import StandbyNode, choose, is_alike, refill, words_of
from gpuward.model.objects.standby_pool import Shape

H100 = Shape(
    product="NVIDIA-H100-80GB-HBM3",
    count=8,
    memory_mib=81559,
    nvlink_domain="d1",
    fabric_block="b1",
    driver="575.51.02",
)


def nodes(**shapes: Shape) -> list[StandbyNode]:
    return [StandbyNode(name.replace("_", "-"), shape) for name, shape in shapes.items()]


def test_the_most_alike_is_chosen_and_of_equals_the_first_by_name() -> None:
    found = choose(H100, nodes(b=H100, a=H100, c=replace(H100, driver="590")))
    assert (found.node, found.given_up) == ("a", ())


@pytest.mark.parametrize(
    ("shape", "given_up"),
    [
        (replace(H100, driver="590"), ("driver",)),
        (replace(H100, driver="590", fabric_block="b2"), ("fabric_block", "driver")),
        (replace(H100, fabric_block="b2"), ("fabric_block", "driver")),
        (replace(H100, nvlink_domain="d2"), ("nvlink_domain", "fabric_block", "driver")),
    ],
)
def test_the_second_group_is_given_up_the_last_first(shape: Shape, given_up: tuple[str, ...]) -> None:
    found = choose(H100, nodes(spare=shape))
    assert (found.node, found.given_up) == ("spare", given_up)


@pytest.mark.parametrize(
    "shape",
    [
        replace(H100, product="NVIDIA-A100-SXM4-80GB"),
        replace(H100, count=4),
        replace(H100, memory_mib=40960),
        replace(H100, mig_layout="1g.10gb*7"),
    ],
)
def test_the_first_group_is_never_given_up(shape: Shape) -> None:
    found = choose(H100, nodes(spare=shape))
    assert found.node is None
    assert words_of(H100) in found.why


def test_a_nearer_one_goes_before_one_for_which_more_is_given_up() -> None:
    shapes = nodes(a_far=replace(H100, nvlink_domain="d2"), b_near=replace(H100, driver="590"))
    assert choose(H100, shapes).node == "b-near"


def test_an_unfit_one_is_never_chosen_and_why_is_said() -> None:
    sick = StandbyNode("a", H100, unfit="is not ready")
    assert choose(H100, [sick, *nodes(b=H100)]).node == "b"
    found = choose(H100, [sick])
    assert (found.node, found.why) == (None, "of 1 that stand by none is fit: a is not ready")
    assert choose(H100, []).why == "no node stands by"


def test_what_a_pool_does_not_say_it_does_not_ask_for() -> None:
    anything = Shape(product=H100.product, count=8)
    assert is_alike(anything, H100)
    assert not is_alike(anything, replace(H100, mig_layout="1g.10gb*7")), "MIG is off unless it is said"


def test_a_pool_is_filled_up_to_its_size_with_fit_nodes_of_its_shape() -> None:
    free = [*nodes(c=H100, b=H100, a=H100, d=replace(H100, count=4)), StandbyNode("e", H100, unfit="has a case")]
    assert refill(H100, 3, ["x"], free=iter(free)) == ("a", "b")
    assert refill(H100, 1, ["x"], free=free) == ()
    assert refill(H100, 9, ["a"], free=free) == ("b", "c")


def test_a_shape_in_words() -> None:
    assert words_of(H100) == "8 x NVIDIA-H100-80GB-HBM3 of 81559 MiB, MIG off"
    assert words_of(Shape("T4", 1, mig_layout="a")) == "1 x T4, MIG a"
