"""What SystemClock promises of the machine's clocks."""

import time

from gpuward.adapters.clock import SystemClock


def test_now_is_the_time_of_day() -> None:
    before = time.clock_gettime(time.CLOCK_REALTIME)
    now = SystemClock().now()
    assert before - 0.001 <= now <= time.clock_gettime(time.CLOCK_REALTIME) + 0.001


def test_monotonic_never_goes_back() -> None:
    clock = SystemClock()
    times = [clock.monotonic() for _ in range(1000)]
    assert times == sorted(times)
