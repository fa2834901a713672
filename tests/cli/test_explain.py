"""What `gpuward explain` says of codes, kinds and pasted lines. Which grade a code has is tested with the catalogue."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuward.isolation.catalogue.load import load, load_rules
from tests.kit.commands import ask, ask_process

LINE = "NVRM: Xid (PCI:0000:3b:00): 79, pid=4321, name=train, GPU has fallen off the bus."
KEYS = [
    "fault", "known", "title", "level", "class", "action", "because", "profiles", "facts", "decoded", "details",
    "rules", "line",
]  # fmt: skip
RULING_KEYS = ["rule", "enabled", "effect", "say", "action", "otherwise", "adds", "source", "row"]
HARMFUL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@pytest.mark.parametrize("what", ["79", "xid:79", "XID:79", "xid 79", "Xid: 79", " 79 ", "Xid79", "xid79"])
def test_a_code_may_be_written_in_several_ways(capsys: pytest.CaptureFixture[str], what: str) -> None:
    answer = ask(capsys, "explain", "--json", what)
    meaning = answer.object()
    assert list(meaning) == KEYS
    assert (answer.code, meaning["fault"], meaning["level"], meaning["class"]) == (0, "xid:79", "P0", "hardware")
    assert meaning["line"] is None


@pytest.mark.parametrize("what", ["12028", "sxid:12028", "SXid: 12028", "SXid12028", "sxid12028"])
def test_a_code_of_five_digits_is_an_sxid(capsys: pytest.CaptureFixture[str], what: str) -> None:
    assert ask(capsys, "explain", "--json", what).object()["fault"] == "sxid:12028"


def test_every_code_and_kind_of_the_book_is_explained_in_every_profile(capsys: pytest.CaptureFixture[str]) -> None:
    book = load()
    whats = [f"xid:{code}" for code in book.codes()] + [f"sxid:{code}" for code in book.sxid_codes()]
    for what in [*whats, *book.others]:
        answer = ask(capsys, "explain", "--json", "--profile", "nvidia", what)
        meaning = answer.object()
        assert (answer.code, meaning["fault"], meaning["known"]) == (0, what, True)
        assert meaning["title"]
        assert set(meaning["profiles"]) == {"default", "nvidia", "intent"}


@pytest.mark.parametrize("what", ["xid:0", "999", "xid:99999", "sxid:1", "99999"])
def test_a_code_that_the_book_does_not_have_is_exit_code_1_and_says_so(
    capsys: pytest.CaptureFixture[str], what: str
) -> None:
    answer = ask(capsys, "explain", what)
    assert answer.code == 1
    assert "not in the book" in answer.out


@pytest.mark.parametrize(
    "what", ["", "   ", "hello", "xid", "xid:", "7 9", "9" * 5000, "xid:" + "9" * 5000, "-1", "٧٩"]
)
def test_what_is_none_of_ours_is_exit_code_1_with_a_remedy(capsys: pytest.CaptureFixture[str], what: str) -> None:
    answer = ask(capsys, "explain", "--", what)
    assert (answer.code, answer.out.strip()) == (1, "")
    assert "is no code, fault kind, rule or NVIDIA kernel line; `gpuward explain --list`" in answer.err
    assert len(answer.err) < 400


def test_nothing_to_explain_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    answer = ask(capsys, "explain")
    assert answer.code == 2
    assert answer.err == "gpuward explain: say what: a code, a fault kind, a rule, a log line in quotes, or --list\n"


@pytest.mark.parametrize(
    "line",
    [
        LINE,
        f"[  100.000000] {LINE}",
        f"Nov 20 03:12:07 ember kernel: [  100.000000] {LINE}",
        f"<6>[  100.000000] {LINE}",
        f"6,812,100000000,-;{LINE}",
        f"kern  :err   : [  100.000000] {LINE}",
        f"2026-11-20T03:12:07+00:00 ember kernel: {LINE}",
        json.dumps({"MESSAGE": LINE, "_TRANSPORT": "kernel"}),
        json.dumps({"MESSAGE": list(LINE.encode()), "_TRANSPORT": "kernel"}),
        f"'{LINE}'",
        f'"{LINE}"',
        f"`{LINE}`",
        f"> {LINE}",
        f"> > `{LINE}`",
        f"\x1b[31m{LINE}\x1b[0m",
        f"  {LINE}\r\n",
        f'\\"{LINE}\\"',
        f"“{LINE}”",
        f"  - {LINE}",
        json.dumps(json.dumps({"MESSAGE": LINE, "_TRANSPORT": "kernel"})),
        json.dumps({"MESSAGE": LINE, "_TRANSPORT": "kernel", "_COMM": 'a "quoted" word'}),
    ],
)
def test_a_line_may_be_pasted_in_any_shape(capsys: pytest.CaptureFixture[str], line: str) -> None:
    answer = ask(capsys, "explain", "--json", line)
    meaning = answer.object()
    assert (answer.code, meaning["fault"], meaning["level"]) == (0, "xid:79", "P0")
    assert meaning["line"]["pid"] == 4321
    assert meaning["line"]["pci"] == "0000:3b:00"


def test_each_pasted_line_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    pasted = f"{LINE}\nnothing\n{LINE.replace('79', '48')}"
    answer = ask(capsys, "explain", "--json", pasted)
    assert [(one["fault"], one["line"]["line"]) for one in answer.objects()] == [("xid:79", 1), ("xid:48", 3)]


def test_an_nvlink_line_is_decoded_to_the_bit(capsys: pytest.CaptureFixture[str]) -> None:
    line = "NVRM: Xid (PCI:0000:3b:00): 74, pid=1, name=x, NVLink: fatal error detected on link 6(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)"  # fmt: skip  # noqa: E501  as the driver prints it
    meaning = ask(capsys, "explain", "--json", line).object()
    assert any("bit 16" in sentence for sentence in meaning["decoded"])
    assert meaning["details"] != {}
    assert "bit 16" in ask(capsys, "explain", line).out


@pytest.mark.parametrize("before", ["Nov 20 03:12:07 ember checker[7]: saw ", "/var/log/kern.log:12:", "look: "])
def test_a_line_that_quotes_an_xid_is_no_fault_and_what_it_quotes_is_explained(
    capsys: pytest.CaptureFixture[str], before: str
) -> None:
    answer = ask(capsys, "explain", "--json", f"{before}{LINE}")
    assert [(one["fault"], one["level"]) for one in answer.objects()] == [("xid_quoted", ""), ("xid:79", "P0")]
    assert answer.code == 0
    text = ask(capsys, "explain", f"{before}{LINE}").out
    assert "It is never a fault" in text
    assert "xid:79: " in text


def test_a_harmless_line_of_the_driver_is_told_to_be_no_fault(capsys: pytest.CaptureFixture[str]) -> None:
    loaded = "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  575.51.02  Thu"
    assert ask(capsys, "explain", "--json", loaded).object()["fault"] == "nvrm_driver_loaded"


def test_the_rules_that_could_change_the_grade_are_named_with_their_source(capsys: pytest.CaptureFixture[str]) -> None:
    rules = ask(capsys, "explain", "--json", "xid:31").object()["rules"]
    assert [rule["id"] for rule in rules] == [rule.id for rule in load_rules().about("xid", 31)]
    assert "R31-same-gpu" in [rule["id"] for rule in rules]
    assert all(set(rule) == {"id", "effect", "say", "source"} and all(rule.values()) for rule in rules)
    text = ask(capsys, "explain", "xid:31").out
    assert "rules that could change the grade" in text
    assert all(rule["id"] in text for rule in rules)


def test_rules_are_told_as_the_settings_make_them(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config = tmp_path / "gpuward.toml"
    config.write_text('rules.R-app-repeat.enabled = false\nrules."R31-same-gpu".count = 9\n', encoding="utf-8")
    rules = ask(capsys, "explain", "--json", "xid:31", "--config", config).object()["rules"]
    told = {rule["id"]: rule["say"] for rule in rules}
    assert "R-app-repeat" not in told
    assert "came 9 times" in told["R31-same-gpu"]


def test_every_rule_is_explained_with_its_words_source_and_row(capsys: pytest.CaptureFixture[str]) -> None:
    rules = load_rules()
    rows = {row.id: row.source for row in rules.identities} | {row.id: row.source for row in rules.rules}
    for name, source in rows.items():
        told = ask(capsys, "explain", "--json", name)
        ruling = told.object()
        assert (told.code, list(ruling)) == (0, RULING_KEYS)
        assert (ruling["rule"], ruling["enabled"], ruling["source"]) == (name, True, source)
        [[text]] = tomllib.loads(ruling["row"]).values()
        assert (text["id"], text["source"]) == (name, source)
        assert ruling["say"]
        assert not re.search(r"[{}]", json.dumps({**ruling, "row": ""})[1:-1])
        answer = ask(capsys, "explain", name)
        assert answer.out.startswith(f"rule {name}\n")
        assert ruling["say"] in answer.out
        assert source in answer.out


def test_the_keys_of_an_explanation_are_those_of_the_page() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "json.md").read_text("utf-8")
    part = page.partition("\n## An explanation (`explain --json`)\n")[2]
    assert f"`{' '.join(KEYS)}`" in part
    cells = [line.split("|")[1] for line in part.splitlines() if line.startswith("| `")]
    assert [key for cell in cells for key in re.findall(r"`([^`]+)`", cell)] == RULING_KEYS


def test_a_rule_may_be_named_in_any_case(capsys: pytest.CaptureFixture[str]) -> None:
    ruling = ask(capsys, "explain", "--json", " r-ORIGIN ").object()
    assert ruling["rule"] == "R-origin"
    assert ruling["say"].endswith("only the kernel's own records act.")


def test_a_rule_is_told_as_the_settings_make_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config = tmp_path / "gpuward.toml"
    config.write_text(
        'rules.R-app-repeat.enabled = false\nrules."R31-same-gpu".count = 9\nrules.I-all.gap_seconds = 7200\n', "utf-8"
    )
    off = ask(capsys, "explain", "--json", "R-app-repeat", "--config", config).object()
    assert off["enabled"] is False
    assert "nothing: the settings turn it off" in ask(capsys, "explain", "R-app-repeat", "--config", config).out
    assert "came 9 times" in ask(capsys, "explain", "--json", "R31-same-gpu", "--config", config).object()["say"]
    assert "further apart than 2 h" in ask(capsys, "explain", "I-all", "--config", config).out


def test_a_rule_that_the_table_does_not_have_is_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    answer = ask(capsys, "explain", "R-nope")
    assert (answer.code, answer.out) == (1, "")
    assert "'R-nope' is no code, fault kind, rule or NVIDIA kernel line" in answer.err


def test_a_level_that_only_a_line_can_tell_is_told_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    meaning = ask(capsys, "explain", "--json", "154").object()
    assert meaning["level"] == "by_payload"
    assert "line" in meaning["action"]


def test_a_profile_and_settings_decide_the_level(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert ask(capsys, "explain", "--json", "63").object()["level"] == "P1"
    assert ask(capsys, "explain", "--json", "--profile", "nvidia", "63").object()["level"] == "P2"
    config = tmp_path / "gpuward.toml"
    config.write_text('[levels]\n"xid:63" = "ignore"\n"rm_init_failed" = "P2"\n', encoding="utf-8")
    for what, level in (("63", "ignore"), (LINE.replace("79", "63"), "ignore"), ("rm_init_failed", "P2")):
        meaning = ask(capsys, "explain", "--json", "--config", config, what).object()
        assert meaning["level"] == level


def test_the_list_names_every_code_kind_and_rule_once(capsys: pytest.CaptureFixture[str]) -> None:
    book, rules = load(), load_rules()
    rows = ask(capsys, "explain", "--list", "--json").objects()
    faults = [row["fault"] for row in rows if "fault" in row]
    assert len(faults) == len(set(faults)) == len(book.xids) + len(book.sxids) + len(book.others)
    ids = [row["rule"] for row in rows if "rule" in row]
    assert ids == [row.id for row in rules.identities] + [row.id for row in rules.rules]
    text = ask(capsys, "explain", "--list").out
    assert all(f"{fault} " in text for fault in faults)
    assert all(rule in text for rule in ids)


def test_the_list_has_the_grades_of_the_profile(capsys: pytest.CaptureFixture[str]) -> None:
    def level(*words: str) -> Any:
        rows = ask(capsys, "explain", "--list", "--json", *words).objects()
        return next(row["level"] for row in rows if row.get("fault") == "xid:63")

    assert (level(), level("--profile", "nvidia")) == ("P1", "P2")


@pytest.mark.parametrize(
    "what",
    [
        b"\xff\xfe",
        b"79\xff",
        b"NVRM: Xid (PCI:0000:3b:00): 79, name=\xff\xed\xa0\x80, x",
        b"\x1b[31m79",
        b"NVRM: Xid \xc3(",
    ],
)
def test_bytes_that_are_no_text_in_the_arguments_are_no_trouble(what: bytes) -> None:
    for words in ([], ["--json"]):
        answer = ask_process("explain", *words, what)
        assert answer.code in {0, 1}
        assert "Traceback" not in answer.err
        assert not HARMFUL.search(answer.out + answer.err)


pasted = st.one_of(
    st.text(max_size=200),
    st.tuples(st.sampled_from(["", "> ", "`", "[ 1.0] "]), st.just("NVRM: Xid (PCI:3b:00): "), st.text()).map("".join),
    st.integers(0, 10**6).map(str),
    st.integers(0, 10**6).map(lambda code: f"NVRM: Xid (PCI:0000:3b:00): {code}, pid=1, name=x, y"),
    st.integers(0, 10**6).map(lambda code: f"nvidia-nvswitch0: SXid (PCI:0000:05:00.0): {code}, Fatal, Link 1 y"),
    st.characters(codec=None).map(lambda char: f"NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name={char}, y"),
)  # fmt: skip


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pasted)
def test_nothing_that_is_pasted_makes_explain_fail_or_show_harm(capsys: pytest.CaptureFixture[str], what: str) -> None:
    for words in (["--json"], []):
        answer = ask(capsys, "explain", *words, "--", what)
        assert answer.code in {0, 1}
        assert not HARMFUL.search(answer.out + answer.err)
        if words:
            assert all(list(one) == KEYS for one in answer.objects())
