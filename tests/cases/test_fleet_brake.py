"""The brakes of a fleet: how many nodes may look sick, by pool, rack and kind, and what passes all the same."""

import pytest

from gpuward.isolation.fleet import Berth, Fleet, FleetBrake, FleetBrakes, Tally, fault_name

NOW = 1_790_000_000.0
BRAKES = FleetBrakes(
    pool=FleetBrake(share=0.3, least=1), rack=FleetBrake(share=0.5, least=1), kind=FleetBrake(share=0.2, least=1)
)


def berth(number: int, *, pool: str = "train", racks: int = 5) -> Berth:
    return Berth(f"gpu-{number}", pool, f"r{number % racks}", BRAKES)


def tally(nodes: int = 10, *, racks: int = 5) -> Tally:
    return Tally((berth(number, racks=racks) for number in range(nodes)), now=NOW)


def test_within_its_most_a_brake_never_holds() -> None:
    counted = tally()
    for number in (0, 1, 2):
        assert not counted.holds(berth(number))
        counted.isolate(berth(number), f"xid:{number}", at=NOW)


def test_one_more_than_the_share_is_held_and_the_sentence_counts() -> None:
    counted = tally()
    for number in (0, 1, 2):
        counted.isolate(berth(number), f"xid:{number}", at=NOW - 1)
    counted.look_sick(berth(3), "xid:3", at=NOW, waits=True)
    assert counted.holds(berth(3)) == (
        "of the 10 nodes of pool train more than 3 look sick within 10 min, which is doubted; "
        "one is taken out each 10 min until they are fewer"
    )


def test_all_at_once_one_is_let_through_as_a_trial() -> None:
    counted = tally()
    for number in range(6):
        counted.look_sick(berth(number), "xid:79", at=NOW, waits=True)
    assert not counted.holds(berth(0))
    counted.isolate(berth(0), "xid:79", at=NOW)
    assert counted.holds(berth(1))


def test_after_a_window_it_half_opens_by_itself() -> None:
    counted = tally()
    counted.isolate(berth(0), "xid:79", at=NOW - 600)
    for number in range(1, 6):
        counted.look_sick(berth(number), "xid:79", at=NOW - 3000, waits=True)
    assert not counted.holds(berth(1))
    counted.isolate(berth(1), "xid:79", at=NOW)
    assert counted.holds(berth(2))


def test_those_that_wait_no_more_are_forgotten_after_a_window() -> None:
    counted = tally()
    for number in range(6):
        counted.look_sick(berth(number), "xid:79", at=NOW - 601, waits=False)
    counted.isolate(berth(7), "xid:79", at=NOW - 1)
    assert not counted.holds(berth(8))


def test_a_rack_is_braked_alone() -> None:
    counted = tally(20, racks=10)
    counted.isolate(berth(0, racks=10), "xid:0", at=NOW)
    counted.look_sick(berth(10, racks=10), "xid:10", at=NOW, waits=True)
    assert "of the 2 nodes of rack r0 in pool train more than 1" in counted.holds(berth(10, racks=10))
    assert not counted.holds(berth(11, racks=10))


def test_a_kind_of_fault_is_braked_alone() -> None:
    counted = tally()
    for number in (0, 1):
        counted.isolate(berth(number), "xid:48", at=NOW)
    counted.look_sick(berth(2), "xid:48", at=NOW, waits=True)
    held = counted.holds_kinds(berth(2))
    assert list(held) == ["xid:48"]
    assert "pool train with xid:48" in held["xid:48"]
    fleet = Fleet(held_kinds=held)
    assert fleet.holds("xid:48")
    assert not fleet.holds("xid:79")


def test_pools_are_strangers_to_each_other() -> None:
    counted = Tally([*(berth(one) for one in range(4)), *(berth(one, pool="serve") for one in range(4, 8))], now=NOW)
    for number in range(3):
        counted.isolate(berth(number), "xid:79", at=NOW)
    assert counted.holds(berth(3))
    assert not counted.holds(berth(4, pool="serve"))
    assert not counted.holds_kinds(berth(4, pool="serve"))


def test_a_clock_that_was_set_back_holds_nobody_for_ever() -> None:
    counted = tally()
    for number in range(6):
        counted.isolate(berth(number), "xid:79", at=NOW + 86_400)
    assert not counted.holds(berth(7))


@pytest.mark.parametrize(
    ("brake", "size", "most"),
    [
        (FleetBrake(), 1, 2),
        (FleetBrake(), 10, 2),
        (FleetBrake(), 16, 3),
        (FleetBrake(), 1000, 200),
        (FleetBrake(nodes=10), 1000, 10),
        (FleetBrake(nodes=1), 4, 1),
        (FleetBrake(share=1.0), 7, 7),
    ],
)
def test_the_most_is_a_share_within_two_numbers(brake: FleetBrake, size: int, most: int) -> None:
    assert brake.most(size) == most


def test_a_fault_is_named_as_settings_name_it() -> None:
    assert fault_name("xid", 79) == "xid:79"
    assert fault_name("sxid_fatal", 12028) == "sxid:12028"
    assert fault_name("node_lost", None) == "node_lost"
