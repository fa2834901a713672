"""The pages say what the commands do: every option, key and setting stands in them. How they are made is not here."""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuward.cli.args import PROFILES, build_parser
from gpuward.cli.objects import change_object
from gpuward.isolation.catalogue.load import load, load_rules
from gpuward.isolation.catalogue.rules import TUNABLE
from gpuward.isolation.merge import Merger
from gpuward.model.record import RecordKind
from gpuward.settings import TABLES, USER_OPTIONS, read_settings
from tests.kit.commands import ask, written
from tests.kit.merging import terms, xid

DOCS = Path(__file__).resolve().parents[2] / "docs"
LOST = "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def section(text: str, title: str) -> str:
    """Return what stands under a heading, up to the next one."""
    _, _, rest = text.partition(f"\n## {title}\n")
    assert rest, f"no heading {title!r}"
    return rest.partition("\n## ")[0]


def keys_of_table(text: str) -> list[str]:
    """Return the words in code marks of the first column."""
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return [key for cell in cells for key in re.findall(r"`([^`]+)`", cell)]


def commands() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in build_parser()._actions:  # noqa: SLF001  argparse has no other way to list them
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001  as above
            yield from action.choices.items()


def test_the_json_keys_of_a_fault_are_those_of_the_page(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    fault = ask(capsys, "scan", "--json", written(tmp_path, [LOST])).object()
    promised = keys_of_table(section(page("json.md"), "A fault (`scan --json`)"))
    assert sorted(fault) == sorted(promised)


def test_the_json_keys_of_a_line_are_those_of_the_page(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    line = ask(capsys, "scan", "--lines", "--json", written(tmp_path, [LOST])).object()
    text = section(page("json.md"), "A line (`scan --lines --json`)")
    promised = re.findall(r"`([^`]+)`", text)[0].split()
    assert list(line) == promised


def test_the_json_keys_of_a_change_are_those_of_the_page() -> None:
    (change,) = Merger(terms()).step(xid(79))
    text = page("json.md")
    promised = keys_of_table(section(text, "A change (`watch --json`)"))
    of_fault = keys_of_table(section(text, "A fault (`scan --json`)"))
    assert sorted(change_object(change, told=0.0, history=False)) == sorted(promised + of_fault)


def test_every_kind_of_line_stands_on_the_page() -> None:
    text = section(page("json.md"), "A line (`scan --lines --json`)")
    assert [kind for kind in RecordKind if f"`{kind}`" not in text] == []


def test_every_option_of_every_command_stands_on_the_page() -> None:
    text = page("reference/commands.md")
    missing = []
    for name, parser in commands():
        part = section(text, f"gpuward {name}")
        for action in parser._actions:  # noqa: SLF001  as above
            words = [option for option in action.option_strings if option.startswith("--")] or [str(action.metavar)]
            missing += [f"{name} {word}" for word in words if word != "--help" and f"`{word}" not in part]
            missing += [f"{name}: {action.help}"] if action.dest != "help" and str(action.help) not in part else []
    assert missing == []


def test_the_page_of_commands_names_no_option_that_is_gone() -> None:
    known = {option for _, parser in commands() for option in parser._option_string_actions}  # noqa: SLF001  as above
    assert known.issuperset(re.findall(r"^\| `(--[a-z-]+)", page("reference/commands.md"), re.MULTILINE))


def test_every_setting_stands_on_the_page() -> None:
    text = page("settings.md")
    assert sorted(keys_of_table(text)) == sorted(TABLES)
    for word in (*TUNABLE, *USER_OPTIONS, *PROFILES, "hardware", "driver", "application", "unknown", "ignore"):
        assert word in text, word


def test_the_example_of_the_settings_page_is_right() -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", page("settings.md"), re.DOTALL)
    chosen = read_settings(example, name="example", book=load(), rules=load_rules())
    assert chosen.profile == "default"
    assert set(chosen.rules) == {"R31-same-gpu", "R-app-repeat"}


@pytest.mark.parametrize("words", [[], ["scan"], ["watch"], ["explain"]])
def test_every_command_has_help(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    answer = ask(capsys, *words, "--help")
    assert answer.code == 0
    assert answer.out.startswith("usage: gpuward")


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["gaze"],
        ["scan", "--level", "P9"],
        ["scan", "--leve", "P0"],
        ["scan", "--profile", "x"],
        ["explain", "1", "2"],
    ],
)
def test_wrong_usage_is_exit_code_2(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    answer = ask(capsys, *words)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("usage: gpuward")
