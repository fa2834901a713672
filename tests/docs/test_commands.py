"""Each command keeps its word: how it ends, and what it says when it can answer nothing. A new one has a row here."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpuward.cli.objects import dumps
from tests.docs.test_docs import subcommands, text
from tests.kit.commands import ask, ask_process

UNREACHABLE = """
apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: "https://127.0.0.1:9"}}]
contexts: [{name: a, context: {cluster: a, user: a}}]
users: [{name: a, user: {token: x}}]
current-context: a
"""
CLUSTER, SERVER = ("--kubeconfig", "{config}"), ("--state-dir", "{nobody}")
NOBODY_ANSWERS: dict[str, tuple[tuple[str, ...], ...]] = {
    "scan": (("{nobody}",), ("{nobody}", "--lines")),
    "watch": (("--kernel-log", "{folder}"),),
    "explain": (),
    "agent": (("--standalone", "--once", "--state-dir", "{config}"),),
    "status": (CLUSTER, SERVER),
    "why": (("x", *CLUSTER), ("x", *SERVER)),
    "cases": (CLUSTER,),
    "nodes": (CLUSTER,),
    "report": (CLUSTER,),
    "approve": (("x", *CLUSTER),),
    "off": (("x", *CLUSTER),),
    "release": (("x", *CLUSTER), ("0", *SERVER)),
    "retry": (("x", *CLUSTER), ("0", *SERVER)),
    "pause": (CLUSTER,),
    "resume": (CLUSTER,),
    "drill": (("n", "0", "79", *CLUSTER), ("0", "79", *SERVER)),
    "qualify": (("0", "--yes", *SERVER),),
    "controller": ((),),
    "install": (),
    "uninstall": (("--yes", *CLUSTER),),
    "preflight": (CLUSTER,),
    "sim": (),
}
"""By command, words with which nobody answers or nothing can be read; none for those that ask nobody."""
ASKS_NOBODY = {"explain", "install", "sim"}
FAILS = [(name, words) for name, rows in NOBODY_ANSWERS.items() for words in rows]


def has_json(name: str) -> bool:
    """Return whether a command can answer in JSON."""
    return "--json" in subcommands()[name].format_help()


def epilog(name: str) -> str:
    """Return what the help of a command says below its options, in one line."""
    return " ".join((subcommands()[name].epilog or "").split())


def test_every_command_has_a_row() -> None:
    assert set(NOBODY_ANSWERS) == set(subcommands())
    assert {name for name, rows in NOBODY_ANSWERS.items() if not rows} == ASKS_NOBODY


@pytest.mark.parametrize("name", sorted(subcommands()))
def test_every_help_says_how_the_command_ends(name: str) -> None:
    (said,) = re.findall(r"exit code: (.*?)(?: examples?:|$)", epilog(name))
    codes = re.findall(r"(?:^|[;.] )(\d) ", said)
    assert codes == sorted(codes)
    assert {"0", "2"} <= set(codes)
    assert "2 wrong usage" in said
    assert set(codes) <= set("0123")
    assert ("3" in codes) or name in {"explain", "install"}


@pytest.mark.parametrize("name", [name for name in subcommands() if has_json(name)])
def test_every_command_that_writes_json_has_a_place_in_json_md(name: str) -> None:
    headings = re.findall(r"^## .*$", text("docs/json.md"), re.MULTILINE)
    of_it = [one for one in headings if re.search(rf"`{name}(?: [^`]*)?`", one)]
    assert of_it, f"docs/json.md has no heading that names `{name} --json`"


def test_every_heading_of_json_md_names_a_command_that_writes_it() -> None:
    for heading in re.findall(r"^## .*$", text("docs/json.md"), re.MULTILINE):
        for span in re.findall(r"`([^`]+)`", heading):
            name = span.split()[0]
            assert name in {*subcommands(), "gpuward.io/notice"}, heading
            assert name == "gpuward.io/notice" or has_json(name) or name == "sim", heading


@pytest.mark.parametrize(("name", "words"), FAILS, ids=[f"{name}-{'-'.join(words)}" for name, words in FAILS])
@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_where_nobody_answers_it_says_so_in_a_sentence_and_ends_with_3(
    name: str, words: tuple[str, ...], *, as_json: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if as_json and not has_json(name):
        pytest.skip("it writes no JSON")
    config = tmp_path / "config"
    config.write_text(UNREACHABLE)
    places = {"config": config, "nobody": tmp_path / "nobody", "folder": tmp_path}
    given = [word.format_map(places) for word in words]
    answer = ask(capsys, name, *given, *(["--json"] if as_json else []))
    assert answer.code == 3, answer
    assert answer.out == ""
    said = answer.err.splitlines()
    assert said, "it says nothing"
    assert all(line.startswith("gpuward") for line in said)
    assert "Traceback" not in answer.err


@pytest.mark.parametrize("name", sorted(subcommands()))
def test_an_option_that_is_none_is_wrong_usage(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    answer = ask(capsys, name, "--no-such-option")
    assert (answer.code, answer.out) == (2, "")
    assert "--no-such-option" in answer.err or "required" in answer.err


@given(st.dictionaries(st.text(), st.text() | st.lists(st.text()), max_size=4))
@example({"a": "\x1b[2J\x7f\x9d0;title\x9c\u202egnp.\u2028\U000e0001 \U00010ffff", "é": "漢字"})
def test_json_carries_everything_and_nothing_that_a_terminal_acts_on(value: dict[str, Any]) -> None:
    line = dumps(value)
    assert line.isprintable()
    assert json.loads(line) == value
    assert not value.get("é") or '"é":"漢字"' in line


@pytest.mark.parametrize("words", [("scan", "{empty}"), ("scan", "{empty}", "--lines"), ("scan", "{log}")])
def test_what_is_piped_has_no_colours_and_json_is_json(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("")
    (tmp_path / "log").write_text("NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n")
    given = [word.format(empty=tmp_path / "empty", log=tmp_path / "log") for word in words]
    for more in ([], ["--json"]):
        answer = ask_process(*given, *more)
        assert "\x1b" not in answer.out + answer.err
        assert answer.code == ("log" in words[1])
        if more:
            objects: list[dict[str, Any]] = [json.loads(line) for line in answer.out.splitlines()]
            assert len(objects) == answer.code
        assert re.search(r"lines? read", answer.err), "that nothing was found is said"
