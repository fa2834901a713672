"""Fixtures of the pretend machine: how to build one, and how to give it its NVML."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gpuward.ports import Refused
from gpuward.sim.machines import machine as machines
from tests.machines.server import Build, Server


@pytest.fixture
def build(tmp_path: Path) -> Build:
    """Return how to build a server: H100 with two GPUs unless told; callers count as root whoever runs the tests."""

    def built(model: str = "H100", *, count: int = 2, mig: bool = False) -> Server:
        machine = machines.build(tmp_path / f"{model}-{count}-{mig}", model, count=count, mig=mig)
        machine.change(root=True)
        return Server(machine)

    return built


@pytest.fixture
def server(build: Build) -> Server:
    """Return a server with two H100."""
    return build()


@pytest.fixture(scope="session")
def _stubs(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a cache of the tests, in which the library is built once."""
    return str(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def _cache(_stubs: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the tests' cache be the user's for one test: others keep theirs in the real one."""
    monkeypatch.setenv("XDG_CACHE_HOME", _stubs)


@pytest.fixture
def with_nvml(_cache: None) -> Callable[[Server], Server]:
    """Return how to give a server its NVML; the test is skipped where nvidia-ml-py or a compiler is missing."""
    pytest.importorskip("pynvml")

    def given(server: Server) -> Server:
        try:
            server.machine.nvml()
        except Refused as error:
            pytest.skip(str(error))
        return server

    return given
