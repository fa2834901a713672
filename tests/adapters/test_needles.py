"""That the steered search finds exactly what the plain search finds, whichever byte it is steered by."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuward.adapters.needles import Probe, probes

NEEDLE = b"abca"


@pytest.mark.parametrize("place", [None, 0, 1, 2, 3])
@given(
    text=st.lists(st.sampled_from([b"abca", b"ab", b"bca", b"c", b"a", b"x"]), max_size=9).map(b"".join),
    start=st.integers(0, 12),
    stop=st.integers(0, 36),
)
def test_the_steered_search_finds_what_the_plain_one_finds(
    place: int | None, text: bytes, start: int, stop: int
) -> None:
    stop = min(stop, len(text))
    assert Probe(NEEDLE, place).next(text, start, stop) == text.find(NEEDLE, start, stop)


def test_the_rarest_byte_steers() -> None:
    [probe] = probes((NEEDLE,), b"aabbaacaaabb" * 500 + b"c")
    assert probe.place is None
    [probe] = probes((NEEDLE,), b"aabbaa" * 1000 + b"c")
    assert probe.place == 2


def test_a_short_sample_steers_nothing() -> None:
    assert probes((NEEDLE,), b"x" * 100) == (Probe(NEEDLE, None),)
