"""Systemd on a small systemctl that keeps the state of one unit in a file."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gpuward.adapters.child import Hung
from gpuward.adapters.systemd import Systemd
from gpuward.ports import Refused, Services

SOON = 20.0
UNIT = "nvidia-dcgm.service"
WELL = """#!/bin/sh
cd "$(dirname "$0")"
echo "$*" >> calls
case "$2" in
    is-active) cat state; [ "$(cat state)" = active ] || exit 3 ;;
    stop) echo inactive > state ;;
    start) echo active > state ;;
esac
"""


class Tool:
    """A script in the place of systemctl."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.does(WELL)
        self.state("active")

    def does(self, text: str) -> None:
        """Put another script in its place."""
        file = self.folder / "systemctl"
        file.write_text(text)
        file.chmod(0o755)

    def state(self, word: str) -> None:
        """Set the state of the unit."""
        (self.folder / "state").write_text(word + "\n")

    def services(self) -> Services:
        """Return the adapter on this script."""
        return Systemd(str(self.folder / "systemctl"))


@pytest.fixture
def tool(tmp_path: Path) -> Tool:
    return Tool(tmp_path)


@pytest.mark.parametrize(
    ("word", "want"),
    [
        ("active", True),
        ("reloading", True),
        ("activating", True),
        ("deactivating", True),
        ("inactive", False),
        ("failed", False),
        ("unknown", False),
    ],
)
def test_a_unit_runs_unless_it_is_at_rest(tool: Tool, word: str, want: bool) -> None:  # noqa: FBT001 - a parameter
    tool.state(word)
    assert tool.services().is_running(UNIT) is want


def test_a_unit_is_stopped_and_started(tool: Tool) -> None:
    services = tool.services()
    services.stop(UNIT, SOON)
    assert not services.is_running(UNIT)
    services.start(UNIT, SOON)
    assert services.is_running(UNIT)


def test_a_stop_that_only_says_that_it_worked_is_refused(tool: Tool) -> None:
    tool.does(WELL.replace("echo inactive > state", "echo done"))
    with pytest.raises(Refused, match=r"is active after .* stop \(done\)"):
        tool.services().stop(UNIT, SOON)


def test_a_unit_that_starts_and_fails_is_refused(tool: Tool) -> None:
    tool.does(WELL.replace("echo active > state", "echo failed > state; echo its reason >&2; exit 1"))
    with pytest.raises(Refused, match=r"is failed after .* start \(its reason\)"):
        tool.services().start(UNIT, SOON)


def test_a_stop_that_worked_in_spite_of_its_exit_code_is_success(tool: Tool) -> None:
    tool.does(WELL.replace("echo inactive > state", "echo inactive > state; exit 1"))
    tool.services().stop(UNIT, SOON)


def test_a_machine_without_systemd_is_refused_with_the_tools_words(tool: Tool) -> None:
    tool.does("#!/bin/sh\necho 'System has not been booted with systemd' >&2; exit 1\n")
    with pytest.raises(Refused, match="has not been booted with systemd"):
        tool.services().is_running(UNIT)


def test_a_machine_without_systemctl_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="not installed"):
        Systemd(str(tmp_path / "nothing")).is_running(UNIT)


@pytest.mark.parametrize("unit", ["", "--all", "-H.service", "dcgm", "a b.service", "a/../b.service", "x\n.service"])
def test_what_is_no_name_of_a_service_is_not_passed_on(tool: Tool, unit: str) -> None:
    with pytest.raises(Refused, match="not the name of a service"):
        tool.services().stop(unit, SOON)
    assert not (tool.folder / "calls").exists()


@pytest.mark.parametrize("call", [lambda s: s.stop(UNIT, 0.3), lambda s: s.start(UNIT, 0.3)], ids=["stop", "start"])
def test_a_stop_or_start_ends_by_its_deadline(tool: Tool, call: Callable[[Services], None]) -> None:
    tool.does("#!/bin/sh\nexec sleep 600\n")
    with pytest.raises(Hung, match=r"did not answer within 0\.3 s"):
        call(tool.services())
