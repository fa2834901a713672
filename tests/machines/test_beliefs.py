"""Each belief about the driver is shown through the real stub program, and each is gone when it is falsified."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from gpuward.ports import Refused
from gpuward.sim.machines.beliefs import beliefs
from tests.machines.server import Build, Server

IN_USE = "In use by another client"


@dataclass(frozen=True, slots=True)
class Try:
    """How a belief is tried on a fresh machine: `run` returns what is seen, which differs when it does not hold."""

    belief: str
    run: Callable[[Server], object]
    holds: object
    falsified: object
    model: str = "H100"
    mig: bool = False


def _quiet(server: Server) -> None:
    """Turn persistence off on all GPUs, so that it stands in nobody's way."""
    assert server.smi("-pm", "0").code == 0


def _pci(server: Server, gpu: int = 0) -> str:
    return f"{server.machine.state().gpus[gpu].pci}.0"


def _drain(server: Server, on: str = "1") -> int:
    return server.smi("drain", "-p", _pci(server), "-m", on).code


def drain_hides(server: Server) -> object:
    server.drain(0)
    return [server.smi("-L").text.count("GPU-"), server.smi("-q").text.count("GPU UUID")]


def drain_persistence(server: Server) -> object:
    said = server.smi("drain", "-p", _pci(server), "-m", "1")
    return said.code, IN_USE in said.text, server.machine.state().gpus[0].drained


def drain_by_address(server: Server) -> object:
    _quiet(server)
    return server.smi("drain", "-p", "0", "-m", "1").code, server.machine.state().gpus[0].drained


def drain_again(server: Server) -> object:
    server.drain(0)
    return _drain(server)


def drain_lost(server: Server) -> object:
    _quiet(server)
    server.machine.inject(0, 79)
    return _drain(server), server.machine.state().gpus[0].drained


def drain_root(server: Server) -> object:
    _quiet(server)
    server.machine.change(root=False)
    return _drain(server), server.smi("drain", "-p", _pci(server), "-q").code


def drain_refuses_new(server: Server) -> object:
    server.drain(0)
    try:
        with server.machine.hold(0):
            return "held"
    except Refused:
        return "refused"


def drain_takes(server: Server) -> object:
    server.drain(0)
    return server.smi("drain", "-p", _pci(server), "-q").text.split()[-2:]


def drain_lifts(server: Server) -> object:
    server.drain(0)
    return _drain(server, "0"), server.smi("-L").text.count("GPU-")


def drain_files(server: Server) -> object:
    server.drain(0)
    while_drained = (server.machine.dev / "nvidia0").exists()
    _drain(server, "0")
    return while_drained, (server.machine.dev / "nvidia0").exists()


def persistence_root(server: Server) -> object:
    server.machine.change(root=False)
    return server.smi("-pm", "0", "-i", "0").code


def persistence_takes(server: Server) -> object:
    _quiet(server)
    return server.smi("--query-gpu=persistence_mode", "--format=csv,noheader", "-i", "1").text.strip()


def persistence_returns(server: Server) -> object:
    _quiet(server)
    server.smi("--gpu-reset", "-i", "0")
    return server.smi("-pm", "1", "-i", "0").code, server.machine.state().gpus[0].persistence


def reset_root(server: Server) -> object:
    _quiet(server)
    server.machine.change(root=False)
    return server.smi("-r", "-i", "0").code


def reset_holders(server: Server) -> object:
    _quiet(server)
    with server.machine.hold(1):
        said = server.smi("--gpu-reset", "-i", "1")
        return said.code, IN_USE in said.text, server.smi("--gpu-reset", "-i", "0").code


def reset_persistence(server: Server) -> object:
    first = server.smi("--gpu-reset", "-i", "0").code
    _quiet(server)
    return first, server.smi("--gpu-reset", "-i", "0").code


def reset_not_drained(server: Server) -> object:
    server.drain(0)
    return server.smi("--gpu-reset", "-i", _pci(server)).code


def reset_lost(server: Server) -> object:
    _quiet(server)
    server.machine.inject(0, 79)
    return server.smi("--gpu-reset", "-i", "0").code, server.machine.state().gpus[0].lost


def reset_display(server: Server) -> object:
    _quiet(server)
    server.machine.change_gpu(0, display=True)
    return server.smi("--gpu-reset", "-i", "0").code


def reset_guest_mig(server: Server) -> object:
    _quiet(server)
    server.machine.change(guest=True)
    return server.smi("--gpu-reset", "-i", "0").code


def reset_peers(server: Server) -> object:
    _quiet(server)
    with_manager = server.smi("--gpu-reset", "-i", "0").code
    server.machine.change(fabric_manager=False)
    return with_manager, server.smi("--gpu-reset", "-i", "0").code, server.smi("--gpu-reset").code


def reset_slices(server: Server) -> object:
    _quiet(server)
    assert server.smi("--gpu-reset", "-i", "0").code == 0
    gpu = server.machine.state().gpus[0]
    return gpu.mig, server.smi("-L", "-i", "0").text.count("MIG-")


def reset_reboot(server: Server) -> object:
    _quiet(server)
    server.machine.inject(0, 154, recovery=2)
    assert server.smi("--gpu-reset", "-i", "0").code == 0
    return _action(server)


def reset_takes(server: Server) -> object:
    _quiet(server)
    server.machine.inject(0, 48)
    said = server.smi("--gpu-reset", "-i", "0")
    assert (said.code, "successfully reset" in said.text) == (0, True)
    gpu = server.machine.state().gpus[0]
    return gpu.ecc_volatile, gpu.ecc_aggregate, gpu.remap_pending, _action(server), gpu.resets


def reset_idle(server: Server) -> object:
    _quiet(server)
    return server.smi("--gpu-reset", "-i", "0").code, server.machine.state().gpus[0].resets


def reset_links(server: Server) -> object:
    _quiet(server)
    server.smi("--gpu-reset", "-i", "0")
    gpu = server.machine.state().gpus[0]
    return gpu.links_down, gpu.pcie_width


def reset_persistence_stays(server: Server) -> object:
    _quiet(server)
    server.smi("--gpu-reset", "-i", "0")
    return "on" if server.machine.state().gpus[0].persistence else "off"


def lost_no_handle(server: Server) -> object:
    server.machine.inject(0, 79)
    said = server.smi("-q", "-i", "0")
    return said.code, "GPU UUID" in said.text, said.text.count("GPU is lost") > 1


def lost_spoils_all(server: Server) -> object:
    server.machine.inject(0, 79)
    said = server.smi("-L")
    return said.code, said.text.count("UUID"), "GPU is lost" in said.text


def recovery_is_logged(server: Server) -> object:
    return [line.split("): ")[1][:2] for line in server.machine.inject(0, 62)]


def gsp_third(server: Server) -> object:
    seen = []
    for _ in range(3):
        server.machine.inject(0, 119)
        seen.append(_action(server))
    return seen


def _action(server: Server) -> str:
    return server.smi("--query-gpu=gpu_recovery_action", "--format=csv,noheader", "-i", "0").text.strip()


TRIES = (
    Try("drain-hides", drain_hides, [1, 1], [2, 2]),
    Try("drain-persistence", drain_persistence, (255, True, False), (0, False, True)),
    Try("drain-by-address", drain_by_address, (6, False), (0, True)),
    Try("drain-again", drain_again, 255, 0),
    Try("drain-lost", drain_lost, (0, True), (15, False)),
    Try("drain-root", drain_root, (4, 0), (0, 0)),
    Try("drain-refuses-new", drain_refuses_new, "refused", "held"),
    Try("drain-takes", drain_takes, ["is:", "draining."], ["not", "draining."]),
    Try("drain-lifts", drain_lifts, (0, 2), (0, 1)),
    Try("drain-files", drain_files, (True, True), (False, True)),
    Try("persistence-root", persistence_root, 4, 0),
    Try("persistence-takes", persistence_takes, "Disabled", "Enabled"),
    Try("persistence-returns", persistence_returns, (0, True), (0, False)),
    Try("reset-root", reset_root, 4, 0),
    Try("reset-holders", reset_holders, (255, True, 0), (0, False, 0)),
    Try("reset-persistence", reset_persistence, (255, 0), (0, 0)),
    Try("reset-not-drained", reset_not_drained, 6, 0),
    Try("reset-lost", reset_lost, (15, True), (0, False)),
    Try("reset-display", reset_display, 3, 0),
    Try("reset-guest-mig", reset_guest_mig, 3, 0, mig=True),
    Try("reset-peers", reset_peers, (0, 255, 0), (0, 0, 0), model="A100"),
    Try("reset-slices", reset_slices, (True, 0), (True, 7), mig=True),
    Try("reset-reboot", reset_reboot, "Reboot", "None"),
    Try("reset-takes", reset_takes, (0, 1, False, "None", 1), (1, 1, True, "Reset", 0)),
    Try("reset-idle", reset_idle, (0, 1), (255, 0)),
    Try("reset-links", reset_links, ((), 16), ((0,), 8)),
    Try("reset-persistence-stays", reset_persistence_stays, "off", "on"),
    Try("lost-no-handle", lost_no_handle, (15, False, False), (0, True, True)),
    Try("lost-spoils-all", lost_spoils_all, (15, 0, True), (15, 1, True)),
    Try("recovery-is-logged", recovery_is_logged, ["62", "15"], ["62"]),
    Try("gsp-third", gsp_third, ["None", "None", "Reset"], ["Reset", "Reset", "Reset"]),
)


def _named(one: Try) -> str:
    return one.belief


@pytest.mark.parametrize("one", TRIES, ids=_named)
def test_the_program_behaves_as_believed(build: Build, one: Try) -> None:
    assert one.run(build(one.model, mig=one.mig)) == one.holds


@pytest.mark.parametrize("one", TRIES, ids=_named)
def test_a_falsified_belief_changes_what_the_program_does(build: Build, one: Try) -> None:
    server = build(one.model, mig=one.mig)
    server.machine.set(one.belief, False)  # noqa: FBT003  read as set(belief, False)
    assert one.falsified != one.holds
    assert one.run(server) == one.falsified


def test_a_belief_can_be_held_again(server: Server) -> None:
    server.machine.set("drain-persistence", False)  # noqa: FBT003  read as set(belief, False)
    server.machine.set("drain-persistence", True)  # noqa: FBT003  read as set(belief, True)
    assert drain_persistence(server) == (255, True, False)


def test_a_drain_leaves_running_processes_alone(server: Server) -> None:
    with server.machine.hold(0) as held:
        server.drain(0)
        assert held.process.poll() is None


def test_every_belief_of_the_table_is_tried() -> None:
    assert {one.belief for one in TRIES} | {"drain-running"} == set(beliefs())


def test_every_belief_says_whence_it_is_known_and_how_it_was_tried() -> None:
    for belief in beliefs().values():
        assert belief.sentence.endswith(".")
        assert belief.source
        assert belief.tried in ("hardware", "documentation", "judgement")


def test_an_unknown_belief_is_refused(server: Server) -> None:
    with pytest.raises(Refused, match="drain-hides"):
        server.machine.set("no-such", False)  # noqa: FBT003  read as set(belief, False)
