"""The ConfigMap by which people pause the fleet: what it says, also when somebody has broken it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuward.model.objects.pause import MOST_CHARACTERS, Pause, pause_object, read_pause, write_pause

AT = 1_790_000_100.0
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(
    by=st.text(min_size=1, max_size=20).filter(lambda text: text.split() and text == " ".join(text.split())),
    because=st.text(max_size=40).map(lambda text: " ".join(text.split())),
    at=st.none() | st.integers(min_value=0, max_value=4_000_000_000).map(float),
)
def test_a_pause_comes_back_as_it_was(by: str, because: str, at: float | None) -> None:
    pause = Pause(on=True, by=by, at=at, because=because)
    assert read_pause(pause_object(pause)) == pause


def test_it_says_who_since_when_why_and_what_goes_on() -> None:
    pause = Pause(on=True, by="alice", at=AT, because="a new driver is rolled out.")
    assert pause.sentence == (
        "paused by alice since 2026-09-21 14:15:00 UTC: a new driver is rolled out; `gpuward resume` goes on"
    )


def test_one_as_it_is_installed_pauses_nothing() -> None:
    assert read_pause(pause_object(Pause(on=False))) == Pause(on=False)
    assert Pause(on=False).sentence == ""
    assert write_pause(Pause(on=False)) == {}


@given(ANYTHING.filter(bool))
def test_one_that_says_anything_is_a_pause_however_broken(data: Any) -> None:
    pause = read_pause({"data": data})
    assert pause.on
    assert pause.sentence.startswith("paused by ")


@pytest.mark.parametrize("at", ["", "yesterday", "2026-09-21T14:15:00", "+10000-01-01T00:00:00Z", 7])
def test_a_time_that_is_none_is_left_out(at: Any) -> None:
    assert read_pause({"data": {"by": "alice", "at": at}}).sentence == "paused by alice; `gpuward resume` goes on"


def test_what_people_write_is_cut_and_kept_on_one_line() -> None:
    pause = read_pause({"data": {"by": "a\nb", "because": "x" * 5000}})
    assert (pause.by, len(pause.because)) == ("a b", MOST_CHARACTERS)
