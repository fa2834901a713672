"""What the pretend clock and store promise, beside the real ones. The pretend log is tried with the real logs."""

from pathlib import Path

import pytest

from gpuward.adapters.clock import SystemClock
from gpuward.adapters.store import JsonFile
from gpuward.ports import Clock, Refused, Store
from tests.kit.pretend import PretendClock, PretendStore


@pytest.fixture(params=["real", "pretend"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return JsonFile(str(tmp_path / "watch.json")) if request.param == "real" else PretendStore()


@pytest.mark.parametrize("clock", [SystemClock(), PretendClock()], ids=["real", "pretend"])
def test_a_clock_s_monotonic_never_goes_back(clock: Clock) -> None:
    before = clock.monotonic()
    if isinstance(clock, PretendClock):
        clock.step(-3600)
    assert clock.monotonic() >= before
    assert clock.now() > 0


def test_a_store_begins_empty_and_gives_back_what_was_saved_last(store: Store) -> None:
    assert store.load() is None
    for saved in ({"a": [1, 2.5, None]}, {"b": {"c": "é"}}):
        store.save(saved)
        assert store.load() == saved


def test_a_store_that_is_broken_is_refused() -> None:
    store = PretendStore()
    store.broken = True
    with pytest.raises(Refused):
        store.save({})
    with pytest.raises(Refused):
        store.load()
