"""Where the tests find the corpus of real outputs, and how patient they are. Other fixtures stand with their tests."""

import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")  # the machine may be busy or slow, and that is no fault of the code

MADE_ONCE = frozenset({"demo", "gpu_cases", "ran", "shows", "site", "world"})
"""The fixtures that take seconds, once for the tests of a file, or ask for one that does."""


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # So a shell starts what it runs in the background, and all of its children would be deaf to Ctrl-C, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(hookwrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Let no tracer slow down a test that is marked `no_cover`; under xdist pytest-cov leaves a second one."""
    tracer = sys.gettrace()
    if tracer is None or item.get_closest_marker("no_cover") is None:
        yield
        return
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(tracer)


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Function]) -> None:
    """Keep the tests of a file in one worker where they share what every other worker would have to make as well."""
    for item in items:
        if item.get_closest_marker("xdist_group") is None and not MADE_ONCE.isdisjoint(item.fixturenames):
            item.add_marker(pytest.mark.xdist_group(item.location[0]))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Let the collector of garbage not go again and again through thousands of tests that stay until the end.

    Seldom through what they make, too: a pretend fleet is a tenth faster for it.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Return the folder of real outputs with their facts: GPUWARD_CORPUS, else beside the checkout; skip without it."""
    named = os.environ.get("GPUWARD_CORPUS")
    folder = Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "corpus"
    if not folder.is_dir():
        pytest.skip(f"no corpus at {folder}: set GPUWARD_CORPUS to its folder")
    return folder
