"""Wrong usage is told with the usage of the command that was meant, and what is right anywhere is right there."""

import pytest

from gpuward.cli.args import build_parser
from gpuward.cli.main import run

OF_A_CLUSTER = ("cases", "nodes", "report", "pause", "resume", "preflight", "uninstall")
OF_A_CASE = ("approve", "off", "why", "release", "retry")


@pytest.mark.parametrize("words", [*((one,) for one in (*OF_A_CLUSTER, "status")), *((one, "c") for one in OF_A_CASE)])
def test_whatever_can_ask_a_cluster_may_be_told_to(words: tuple[str, ...]) -> None:
    assert build_parser().parse_args([*words, "--cluster"]).cluster is True


@pytest.mark.parametrize("command", [*OF_A_CLUSTER, "status", "scan", "agent", "install", "controller"])
def test_an_option_that_a_command_does_not_have_is_told_with_the_usage_of_that_command(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([command, "--nowhere=\x1b[31m"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"usage: gpuward {command} [-h]")
    assert f"gpuward {command}: error: unrecognized arguments: --nowhere" in said
    assert "\x1b" not in said


@pytest.mark.parametrize("name", ["", "A B", "gpuward\n", "-a", "a" * 64])
@pytest.mark.parametrize("command", [*OF_A_CLUSTER, "status"])
def test_a_namespace_that_none_can_be_is_wrong_usage_before_anybody_is_asked(
    command: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([command, "--kubeconfig", "/nowhere", f"--namespace={name}"]) == 2
    assert "cannot be a namespace" in capsys.readouterr().err
