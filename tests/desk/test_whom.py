"""One command word for the agent of a server and for a cluster: whom it asks, and that it says so."""

import argparse
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuward.cli.args import build_parser
from gpuward.cli.wiring import UsageError
from gpuward.cli.wiring.whom import whom
from tests.kit.commands import Answer, ask


@pytest.fixture(autouse=True)
def nobodys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Give a person without any configuration."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def running(tmp_path: Path) -> Iterator[str]:
    """Give the state folder of an agent that runs."""
    folder = tmp_path / "state"
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(folder / "agent.sock"))
        yield str(folder)


def asked(*words: str) -> argparse.Namespace:
    return build_parser().parse_args(["status", *words])


def test_what_is_named_is_asked(running: str) -> None:
    assert whom(asked("--state-dir", "/x"), state_dir=running).state_dir == "/x"
    for words in (("--kubeconfig", "/k"), ("--cluster",)):
        assert whom(asked(*words), state_dir=running).state_dir is None
    with pytest.raises(UsageError, match=r"--state-dir asks the agent of this server.*say one"):
        whom(asked("--state-dir", "/x", "--cluster"))


def test_what_is_there_is_asked(running: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert whom(asked(), state_dir=running).state_dir == running
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert whom(asked(), state_dir=running).state_dir == running, "the agent's own pod"
    assert whom(asked(), state_dir="/nowhere").state_dir is None, "the controller's pod"


def test_where_both_could_be_meant_it_is_said_which_was_taken(running: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/k")
    one = whom(asked(), state_dir=running)
    assert one.state_dir is None
    assert one.note == (
        f"KUBECONFIG is set, so the cluster is asked; an agent runs on this server too: --state-dir {running} asks it"
    )
    assert whom(asked(), state_dir="/nowhere").note == ""


def test_without_an_agent_the_usual_kubeconfig_is_taken_and_that_is_said(tmp_path: Path) -> None:
    assert whom(asked(), state_dir="/nowhere").guessed
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text("{}", "utf-8")
    one = whom(asked(), state_dir="/nowhere")
    assert (one.state_dir, "no agent runs on this server, so the cluster of ~/.kube/config is asked" in one.note) == (
        None,
        True,
    )


@pytest.mark.parametrize("words", [("status",), ("why", "x"), ("release", "x"), ("retry", "x"), ("drill", "0", "79")])
def test_with_neither_both_ways_are_named(capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    answer = ask(capsys, *words)
    assert (answer.code, answer.out) == (3, "")
    assert "no agent answers at" in answer.err
    assert "A cluster is asked with --kubeconfig FILE" in answer.err


@pytest.mark.parametrize("command", ["cases", "nodes", "report", "pause", "resume"])
def test_what_only_a_cluster_has_asks_for_one(capsys: pytest.CaptureFixture[str], command: str) -> None:
    answer = ask(capsys, command)
    assert (answer.code, "name one with --kubeconfig" in answer.err) == (3, True)


@pytest.mark.parametrize(
    ("words", "named", "most"),
    [
        (("release", "c-1"), "--because", 1024),
        (("approve", "c-1"), "--by", 256),
        (("pause",), "--because", 512),
        (("pause",), "--by", 512),
        (("retry",), "NAME", 318),
        (("why",), "NAME", 318),
        (("cases",), "--node", 253),
        (("drill", "gpu-1"), "GPU", 64),
    ],
)
def test_what_is_longer_than_its_place_is_refused_with_the_limit_before_anybody_is_asked(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], named: str, most: int
) -> None:
    def said(length: int) -> Answer:
        given = (f"{named}={'x' * length}",) if named.startswith("--") else ("x" * length,)
        more = ("79",) if words[0] == "drill" else ()
        return ask(capsys, *words, *given, *more, "--kubeconfig", "/nowhere/at/all")

    fits, long = said(most), said(5000)
    assert (fits.code, "there is no kubeconfig at /nowhere/at/all" in fits.err) == (3, True)
    assert long.code == 2
    called = named.removeprefix("--").upper() if named == "--node" else named
    assert f"gpuward {words[0]}: {called} 'xxx" in long.err
    assert "has 5000 characters, and " in long.err
    assert f" {most}; say it in fewer" in long.err
    assert len(long.err) < 300


def test_words_of_the_other_kind_are_wrong_usage(capsys: pytest.CaptureFixture[str], running: str) -> None:
    for words, says in (
        (("release", "--all", "--cluster"), "on a cluster name a case, or a node"),
        (("release", "0", "--by", "alice", "--state-dir", running), "an agent alone keeps neither"),
        (("drill", "gpu-1", "0", "79", "--state-dir", running), "gpuward drill GPU CODE"),
        (("drill", "0", "x"), "is no Xid code"),
    ):
        answer = ask(capsys, *words)
        assert (answer.code, says in answer.err) == (2, True), answer.err
