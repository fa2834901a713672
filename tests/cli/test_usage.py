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


_ENDLESS = "9" * 5000


@pytest.mark.parametrize(
    ("words", "said"),
    [
        *(
            (
                ["agent", f"--{option}-seconds={absurd}"],
                f"--{option}-seconds: must be a number of seconds, {least} or more",
            )
            for option, least in (("probation", "0"), ("check", "0"), ("poll", "0.1"), ("read", "0.1"))
            for absurd in ("nan", "inf", "1e400", "-1", "1e9", _ENDLESS)
        ),
        *(
            (["drill", "0", "79", f"--wait-seconds={absurd}"], "less than 10000000")
            for absurd in ("inf", "1e400", "-1")
        ),
        (["controller", f"--lease-seconds={_ENDLESS}"], "must be a whole number of seconds, 1 to 600"),
        (["controller", f"--metrics-port={_ENDLESS}"], "must be a port, 1 to 65535"),
        *(
            (["sim", "run", f"--{option}={_ENDLESS}"], "must be a whole number")
            for option in ("seed", "nodes", "gpus", "without")
        ),
        *((["sim", "run", f"--days={absurd}"], "must be a number of days") for absurd in ("nan", "inf", "1e400", "-1")),
        *(
            (["scan", f"--{option}={absurd}", "/dev/null"], f"--{option}: '{absurd[:20]}")
            for option in ("since", "until", "boot-time")
            for absurd in ("99999999999d", f"{_ENDLESS}w", "1e400s", "-1h", "nan", "0000-01-01")
        ),
        (["drill", "0", _ENDLESS], "is no Xid code"),
    ],
)
def test_a_number_or_a_time_beyond_all_reason_is_wrong_usage_in_a_short_sentence(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == 2
    errors = capsys.readouterr().err
    assert said in errors
    assert _ENDLESS not in errors


@pytest.mark.parametrize("name", ["", "A B", "gpuward\n", "-a", "a" * 64])
@pytest.mark.parametrize("command", [*OF_A_CLUSTER, "status"])
def test_a_namespace_that_none_can_be_is_wrong_usage_before_anybody_is_asked(
    command: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([command, "--kubeconfig", "/nowhere", f"--namespace={name}"]) == 2
    assert "cannot be a namespace" in capsys.readouterr().err
