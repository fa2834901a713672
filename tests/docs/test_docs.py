"""The documentation names nothing that is not there, and all that is. How well it reads is not tested."""

import argparse
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from itertools import product
from pathlib import Path

import pytest

from gpuward.agent.board import STATES, Board, board_object
from gpuward.agent.sight import Seen, remember
from gpuward.audit.facts import Finding
from gpuward.cli.args import build_parser
from gpuward.cli.objects import change_object, fault_object, line_object
from gpuward.isolation.catalogue.load import load, load_rules
from gpuward.isolation.laws import STEP_LAWS
from gpuward.isolation.table import MOVES
from gpuward.model.case import CaseState, EffectKind, Mode, Outcome
from gpuward.model.fault import ChangeKind
from gpuward.model.happening import Happening, What
from gpuward.model.metric import METRICS
from gpuward.model.record import RecordKind
from gpuward.settings import TABLES, read_settings
from tests.kit.merging import terms, told, xid
from tests.kit.pretend_driver import a_reading
from tests.kit.records import a_record

ROOT = Path(__file__).resolve().parents[2]
READMES = ("README.md", "README.zh-CN.md")
_MADE = {"site", "build", "dist", "__pycache__"}
_OF_OTHERS = {"--require-hashes"}
"""Options in the documentation that are another program's."""
_ABOUT_OTHERS = "docs/rules.md"
"""A page about what others published: the options in it are of their programs."""
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")


def files() -> Iterator[Path]:
    """Yield every file of the project; what is made, fetched or hidden is none, but for .ci."""
    for top in sorted(ROOT.iterdir()):
        if top.name in _MADE or (top.name.startswith(".") and top.name != ".ci"):
            continue
        inside = [top] if top.is_file() else sorted(top.rglob("*"))
        yield from (file for file in inside if file.is_file() and _MADE.isdisjoint(file.relative_to(ROOT).parts))


PAGES = [str(file.relative_to(ROOT)) for file in files() if file.suffix == ".md"]
every_page = pytest.mark.parametrize("page", PAGES)


def text(page: str) -> str:
    return (ROOT / page).read_text("utf-8")


def blocks(page: str, language: str) -> list[str]:
    return [match[2] for match in _BLOCK.finditer(text(page)) if match[1] == language]


def spans(page: str) -> list[str]:
    return _SPAN.findall(_BLOCK.sub("", text(page)))


def commands(page: str) -> Iterator[list[str]]:
    """Yield every gpuward command line that a page shows, as words."""
    shown = [line for block in _BLOCK.finditer(text(page)) for line in block[2].splitlines()]
    for line in [*shown, *spans(page)]:
        lexer = shlex.shlex(line.strip().removeprefix("$ "), posix=True, punctuation_chars="|")
        lexer.whitespace_split = True
        try:
            words = list(lexer)
        except ValueError:  # a sentence with an apostrophe is no command
            continue
        for start, word in enumerate(words):
            if word == "gpuward" and (start == 0 or words[start - 1] == "|"):
                end = words.index("|", start) if "|" in words[start:] else len(words)
                yield words[start + 1 : end]


def links(page: str) -> set[str]:
    return set(_LINK.findall(_BLOCK.sub("", text(page))))


def section(page: str, heading: str) -> str:
    """Return what stands under a heading of the second level."""
    return text(page).partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def first_column(table: str) -> set[str]:
    """Return the words in code in the first column of a table."""
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("|")]
    return {word for cell in cells for word in _SPAN.findall(cell)}


def anchor(heading: str) -> str:
    """Return the name that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def test_the_pages_are_found() -> None:
    assert {*READMES, "CHANGELOG.md", "SCOPE.md", "docs/json.md", "docs/reference/xids.md"} <= set(PAGES)


@every_page
def test_every_link_leads_somewhere(page: str) -> None:
    for link in links(page):
        if re.match(r"https?://", link):
            continue
        path, _, place = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        assert target.exists(), f"{page}: {link}"
        if place:
            headings = re.findall(r"^#+ (.*)$", target.read_text("utf-8"), re.MULTILINE)
            assert place in map(anchor, headings), f"{page}: {link}"


@every_page
def test_every_command_that_is_shown_can_be_given(page: str) -> None:
    for words in commands(page):
        # A command's bare name speaks of the command.
        if words and (len(words) > 1 or words[0] not in subcommands()):
            build_parser().parse_args([word for word in words if word != "--help"])


def test_commands_are_found_in_pages() -> None:
    shown = [" ".join(words) for page in PAGES for words in commands(page)]
    assert "watch --kernel-log journal --json" in shown
    assert "scan --json -" in shown
    assert "explain --list" in shown
    assert len(shown) >= 20


@every_page
def test_every_option_and_make_target_that_is_named_exists(page: str) -> None:
    help_text = "".join(command.format_help() for command in subcommands().values())
    options = set(re.findall(r"--[a-z][a-z-]+", help_text)) | _OF_OTHERS
    targets = set(re.findall(r"^([a-z-]+):", text("Makefile"), re.MULTILINE))
    shown = [*spans(page), *(line for block in blocks(page, "sh") for line in block.splitlines())]
    for span in shown:
        named = re.match(r"(?:\w+ )?(--[a-z][a-z-]+)", span)
        assert page == _ABOUT_OTHERS or named is None or named[1] in options, f"{page}: {span}"
        made = re.match(r"make ([a-z-]+)", span)
        assert made is None or made[1] in targets, f"{page}: {span}"


def subcommands() -> dict[str, argparse.ArgumentParser]:
    return {
        name: command
        for action in build_parser()._actions  # noqa: SLF001  argparse offers no other way
        if isinstance(action.choices, dict)
        for name, command in action.choices.items()
    }


def test_the_help_names_every_subcommand() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gpuward", "--help"], check=True, capture_output=True, text=True, timeout=20
    )
    assert set(subcommands()) == {
        *("scan", "watch", "explain", "agent", "status", "why", "release", "retry", "drill", "qualify"),
        *("approve", "off", "pause", "resume"),
        *("controller", "install", "uninstall", "preflight", "cases", "nodes", "report", "sim"),
    }
    for name in subcommands():
        assert re.search(rf"^    {name}\s+\w", done.stdout, re.MULTILINE)


def test_both_readmes_have_the_same_sections_tables_and_lists() -> None:
    def shape(page: str) -> list[str]:
        prose = _BLOCK.sub("```\n", text(page))
        marks = re.findall(r"^(#+ |```|\|(?=[^-])|\d\. |- )", prose, re.MULTILINE)
        return [mark.strip() for mark in marks]

    assert shape(READMES[0]) == shape(READMES[1])
    assert shape(READMES[0]).count("##") >= 4


def test_both_readmes_show_the_same_commands_and_output() -> None:
    def without_comments(page: str) -> list[str]:
        shown = blocks(page, "sh")
        assert shown, page
        return [re.sub(r"\s*#.*", "", line) for block in shown for line in block.splitlines()]

    assert without_comments(READMES[0]) == without_comments(READMES[1])
    assert blocks(READMES[0], "text") == blocks(READMES[1], "text")
    assert sorted(map(" ".join, commands(READMES[0]))) == sorted(map(" ".join, commands(READMES[1])))


def test_both_readmes_have_the_same_links() -> None:
    assert links(READMES[0]) - {READMES[1]} == links(READMES[1]) - {READMES[0]}
    assert READMES[1] in links(READMES[0])
    assert READMES[0] in links(READMES[1])


@pytest.mark.parametrize("page", READMES)
def test_the_numbers_of_rows_are_true(page: str) -> None:
    book = load()
    nvlink = sum(len(book.nvlink(code)) for code in book.codes())
    counted = [str(len(book.codes())), str(len(book.sxid_codes())), str(nvlink)]
    numbers = re.search(r"(\d+) (?:个 )?Xids?\b.{0,9}?(\d+) (?:个 )?SXids?\b.{0,9}?(\d+) ", text(page), re.DOTALL)
    assert numbers is not None
    assert list(numbers.groups()) == counted


@pytest.mark.parametrize("page", READMES)
def test_the_reading_order_names_five_files_that_are_there(page: str) -> None:
    steps = re.findall(r"^\d\. \[`([^`]+)`\]\(([^)]+)\)", text(page), re.MULTILINE)
    assert len(steps) == 5
    for name, path in steps:
        assert path == f"src/gpuward/{name}"
        assert (ROOT / path).is_file()


def test_the_made_pages_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "pages.py"), "--check"],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


def test_every_code_kind_and_rule_of_the_book_is_in_the_reference() -> None:
    book, rules = load(), load_rules()
    xids, sxids, faults, ruled = (text(f"docs/reference/{name}.md") for name in ("xids", "sxids", "faults", "rules"))
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", xids, re.MULTILINE)} == set(book.codes())
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", sxids, re.MULTILINE)} == set(book.sxid_codes())
    assert set(book.others) == set(re.findall(r"^\| ([a-z_]+) \|", faults, re.MULTILINE))
    for row_id in (*(rule.id for rule in rules.rules), *(row.id for row in rules.identities)):
        assert f"| {row_id} |" in ruled


def test_every_option_of_a_command_is_in_the_reference() -> None:
    page = text("docs/reference/commands.md")
    for name, command in subcommands().items():
        assert f"## gpuward {name}" in page
        for option in re.findall(r"^  (--[a-z-]+)", command.format_help(), re.MULTILINE):
            assert f"`{option}" in page, option


def kinds_of_faults() -> set[str]:
    """Return the kinds of fault that lines of all kinds can begin."""
    grade = terms().grade
    found = set()
    for kind, code, word in product(RecordKind, (None, 79, 12028, 99999), (None, "fatal", "non-fatal", "corrected")):
        details = {"aer_severity": word, "of_gpu": True}
        graded = grade(a_record(kind=kind, code=code, severity=word, details=details))
        found |= {graded.kind} if graded else set()
    return found


def test_json_md_names_every_kind_of_fault_line_and_change() -> None:
    kinds = section("docs/json.md", "A fault (`scan --json`)")
    [listed] = re.findall(r"^\| `kind` \| (.*) \|$", kinds, re.MULTILINE)
    assert set(_SPAN.findall(listed)) == kinds_of_faults()
    lines = section("docs/json.md", "A line (`scan --lines --json`)")
    for record_kind in RecordKind:
        assert f"`{record_kind}`" in lines, record_kind
    changes = section("docs/json.md", "A change (`watch --json`)")
    for change in ChangeKind:
        assert (f"`{change}`" in changes) is (change is not ChangeKind.CLOSED), "closed faults are not told"


def test_json_md_names_exactly_the_keys_that_are_written() -> None:
    change = told([xid(31)]).changes[0]
    of_fault = set(fault_object(change.fault))
    assert first_column(section("docs/json.md", "A fault (`scan --json`)")) == of_fault
    of_change = set(change_object(change, told=0.0, history=False))
    assert first_column(section("docs/json.md", "A change (`watch --json`)")) == of_change - of_fault
    named = re.search(r"`([a-z ]+ text)`", section("docs/json.md", "A line (`scan --lines --json`)"))
    assert named is not None
    assert named[1].split() == list(line_object(a_record()))


def test_json_md_names_exactly_the_keys_of_a_board() -> None:
    was = remember(a_reading("0000:0a:00", 0))
    seen = Seen(was=was, reading=None, read=False, holders=None, drained=False, lost=False, display=False)
    board = Board(mode=Mode.OBSERVE, node="n", now=0.0, road=None, driver_version=None, gpus=(seen,), cases=())
    whole = board_object(board)
    of_gpu = set(whole["gpus"][0])
    assert (
        first_column(section("docs/json.md", "A board (`status --json`, `agent --once --json`)")) == set(whole) | of_gpu
    )


def test_json_md_names_exactly_the_keys_of_a_finding() -> None:
    keys = {one.name for one in fields(Finding)}
    assert first_column(section("docs/json.md", "A look over a cluster (`preflight --json`)")) == keys


def test_agent_md_names_every_mode_state_effect_outcome_and_field_of_the_journal() -> None:
    page = text("docs/agent.md")
    modes = re.findall(r"^\| `([a-z]+)` \|", page.partition("\n## ")[0], re.MULTILINE)
    assert set(modes) == {str(mode) for mode in Mode}
    asking = section("docs/agent.md", "Asking the agent")
    assert set(re.findall(r"^\| ([a-z]+) \|", asking, re.MULTILINE)) == {"state", "active", *STATES}
    journal = section("docs/agent.md", "The journal")
    fields_of_journal = {{"before": "from", "after": "to"}.get(one.name, one.name) for one in fields(Happening)}
    assert first_column(journal) == fields_of_journal
    for word in (*What, *EffectKind, *Outcome):
        assert f"`{word}`" in journal, word


def test_the_page_of_cases_has_every_state_move_and_law() -> None:
    page = text("docs/reference/cases.md")
    for state in CaseState:
        assert re.search(rf"^    .*\b{state}\b", page, re.MULTILINE), state
    assert len(re.findall(r"^\| [a-z]+ \| [a-z ]+ \| [a-z]+ \|", page, re.MULTILINE)) == len(MOVES)
    for law in STEP_LAWS:
        assert f"| {law.__name__.replace('_', ' ')} |" in page


def test_the_page_of_metrics_has_every_metric_and_every_value_of_a_label_and_no_others() -> None:
    page = text("docs/reference/metrics.md")
    assert set(re.findall(r"^\| `(gpuward_[a-z_]+)` \|", page, re.MULTILINE)) == {row.name for row in METRICS}
    named = {word for other in PAGES for word in re.findall(r"\bgpuward_[a-z_]+\b", text(other))}
    assert named <= {row.name for row in METRICS}
    for label in (label for row in METRICS for label in row.labels):
        assert f"| `{label.name}` | {label.says} | {', '.join(label.values)}" in page


def test_the_settings_that_are_shown_can_be_used_and_are_all_there_are() -> None:
    [shown] = blocks("docs/settings.md", "toml")
    settings = read_settings(shown, name="docs/settings.md", book=load(), rules=load_rules())
    names = set(TABLES)
    assert set(tomllib.loads(shown)) == names
    page = text("docs/settings.md")
    for column in {column for columns in TABLES.values() for column in columns}:
        assert re.search(rf"\b{column}\b", page), column
    assert first_column(text("docs/settings.md").partition("| setting |")[2]) == names
    assert settings.rules["R31-same-gpu"]["count"] == 3


def test_the_changelog_has_a_place_for_what_is_not_released() -> None:
    headings = re.findall(r"^## (.*)$", text("CHANGELOG.md"), re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert section("CHANGELOG.md", "Unreleased").strip()


def test_no_file_names_the_place_of_a_checkout() -> None:
    places = [str(ROOT) + "/", "/" + "work/", "/" + "home/"]
    for file in files():
        content = file.read_bytes()
        for place in places:
            assert place.encode() not in content, f"{place} in {file.relative_to(ROOT)}"


@every_page
def test_every_page_has_one_title_and_ends_with_one_newline(page: str) -> None:
    prose = _BLOCK.sub("", text(page))
    assert len(re.findall(r"^# ", prose, re.MULTILINE)) == 1
    assert re.search(r"[^\n]\n\Z", text(page))
