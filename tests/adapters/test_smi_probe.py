"""SmiProbe on the nvidia-smi of a pretend machine: the tool's own answers, whatever was so before."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gpuward.adapters.smi_probe import SmiProbe
from gpuward.agent.qualify import Probe
from gpuward.ports import Refused, Unreachable
from gpuward.sim.machines import machine as machines
from gpuward.sim.machines.machine import Machine

WAYS = ("-L", "-q", "-q -x", "--query-gpu=uuid --format=csv")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    built = machines.build(tmp_path / "machine", count=2)
    built.change(root=True)
    return built


def probe(machine: Machine) -> Probe:
    return SmiProbe(str(machine.smi), proc=str(machine.proc), dev=str(machine.dev))


def test_a_gpu_is_shown_in_every_way_until_it_is_drained(machine: Machine) -> None:
    gpu = machine.state().gpus[1]
    assert probe(machine).shown_by(gpu.uuid.upper()) == WAYS
    machine.change_gpu(1, drained=True)
    assert probe(machine).shown_by(gpu.uuid) == ()
    machine.set("drain-hides", False)  # noqa: FBT003  read as set(belief, False)
    assert probe(machine).shown_by(gpu.uuid) == WAYS


def test_the_only_gpu_of_a_machine_is_hidden_too(tmp_path: Path) -> None:
    alone = machines.build(tmp_path / "alone", count=1)
    alone.change_gpu(0, drained=True)
    assert probe(alone).shown_by(alone.state().gpus[0].uuid) == ()


def test_a_tool_that_says_nothing_of_any_gpu_does_not_hide_one(machine: Machine) -> None:
    machine.inject(0, 79)
    with pytest.raises(Unreachable, match="does not answer"):
        probe(machine).shown_by(machine.state().gpus[1].uuid)
    machine.change(loaded=False)
    with pytest.raises(Unreachable, match="does not answer"):
        probe(machine).shown_by(machine.state().gpus[1].uuid)


def test_who_may_not_drain_is_told_before(machine: Machine) -> None:
    before = machine.state()
    assert probe(machine).may_act(before.gpus[1].pci)
    assert machine.state() == before
    machine.change(root=False)
    assert not probe(machine).may_act(before.gpus[1].pci)


def test_an_index_is_only_asked_about(machine: Machine) -> None:
    before = machine.state()
    assert not probe(machine).finds_by_index(1)
    assert machine.state() == before
    machine.set("drain-by-address", False)  # noqa: FBT003  read as set(belief, False)
    assert probe(machine).finds_by_index(1)


def test_refusals_are_in_the_tools_own_words(machine: Machine) -> None:
    pci = machine.state().gpus[1].pci
    asked = probe(machine)
    assert "In use by another client (exit code 255)" in asked.refuses_drain(pci)
    assert "exit code 255" in asked.refuses_reset(pci)
    machine.change_gpu(1, persistence=False)
    assert asked.refuses_reset(pci) == ""
    assert asked.refuses_drain(pci) == ""
    assert machine.state().gpus[1].drained
    assert "In use" in asked.refuses_drain(pci)
    assert "No devices were found (exit code 6)" in asked.refuses_reset(pci)


def test_files_that_are_not_there_are_named(machine: Machine) -> None:
    pci = machine.state().gpus[1].pci
    assert probe(machine).files_gone(pci, 1) == ()
    (machine.dev / "nvidia1").unlink()
    assert probe(machine).files_gone(pci, 1) == (str(machine.dev / "nvidia1"),)
    assert len(probe(machine).files_gone("0000:77:00", 7)) == 2


@pytest.mark.parametrize(
    "ask", [lambda one: one.shown_by("GPU-1"), lambda one: one.may_act("0000:0a:00"), lambda one: one.finds_by_index(0)]
)
def test_a_tool_that_is_not_there_or_is_killed_is_no_answer(tmp_path: Path, ask: Callable[[Probe], object]) -> None:
    with pytest.raises(Refused, match="not installed"):
        ask(SmiProbe(str(tmp_path / "nvidia-smi")))
    killed = tmp_path / "killed"
    killed.write_text("#!/bin/sh\nkill -9 $$\n")
    killed.chmod(0o755)
    with pytest.raises(Unreachable, match="signal 9"):
        ask(SmiProbe(str(killed)))
