"""The settings file: every mistake is named with its place, and what it sets reaches the verdicts."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as with_settings
from hypothesis import strategies as st

from gpuward.isolation.brake import Brake
from gpuward.isolation.budget import Budget
from gpuward.isolation.catalogue.load import load, load_rules
from gpuward.model.case import Mode
from gpuward.model.level import FaultClass, Level
from gpuward.settings import AgentSettings, Settings, SettingsError, read_settings
from gpuward.settings.pools import ClusterSettings, PoolTerms
from tests.kit.commands import Answer, ask, ask_process, written


def read(text: str) -> Settings:
    return read_settings(text, name="a.toml", book=load(), rules=load_rules())


def mistakes(text: str) -> list[str]:
    """Return the mistakes, what is allowed left out."""
    with pytest.raises(SettingsError) as caught:
        read(text)
    return [line.partition("; allowed")[0] for line in str(caught.value).splitlines()]


def test_an_empty_document_is_the_defaults() -> None:
    assert read("") == read("# nothing\n") == Settings()


def test_every_setting_is_read() -> None:
    chosen = read(
        'profile = "intent"\noptions = ["lower_48"]\n[levels]\n"xid:92" = "P1"\nrm_init_failed = "P0"\n'
        '[classes]\n"sxid:12028" = "driver"\n[rules."R31-same-gpu"]\ncount = 3\nbefore_seconds = 7.5\nenabled = true\n'
        "[rules.I-all]\ngap_seconds = 60\n"
        '[agent]\nmode = "repair"\npoll_seconds = 5\ncheck_command = "dcgmi diag -r 1"\nreset_unqualified = true\n'
        'dcgm_url = "http://localhost:9400/metrics"\n'
        "[brake]\nshare = 0.25\nwindow_seconds = 60\n[budget]\ngpus = 4\nhardware = 2\n"
    )
    assert chosen == Settings(
        profile="intent",
        options=frozenset({"lower_48"}),
        levels={"xid:92": Level.P1, "rm_init_failed": Level.P0},
        classes={"sxid:12028": FaultClass.DRIVER},
        rules={"R31-same-gpu": {"count": 3, "before_seconds": 7.5, "enabled": True}, "I-all": {"gap_seconds": 60}},
        agent=AgentSettings(
            mode=Mode.REPAIR,
            poll_seconds=5,
            check_command=("dcgmi", "diag", "-r", "1"),
            reset_unqualified=True,
            dcgm_url="http://localhost:9400/metrics",
        ),
        cluster=ClusterSettings(
            default=PoolTerms(
                brake=Brake(share=0.25, window_seconds=60), budget=Budget(gpus=4, by_class={FaultClass.HARDWARE: 2})
            )
        ),
    )


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ('profil = "nvidia"', "a.toml, line 1, profil: no such setting"),
        ('\n\nprofile = "nvdia"', "a.toml, line 3, profile: 'nvdia' is unknown"),
        ("profile = 3", "a.toml, line 1, profile: 3 is unknown"),
        ("profile = {a = 1}", "a.toml, line 1, profile: {'a': 1} is unknown"),
        ('options = "lower_48"', "a.toml, line 1, options: must be a list of words"),
        ('options = [\n"lower_49"]', "a.toml, line 1, options: 'lower_49' is unknown"),
        ("options = [[]]", "a.toml, line 1, options: [] is unknown"),
        ('options = ["accept_user_records"]', "a.toml, line 1, options: 'accept_user_records' is unknown"),
        ("levels = 4", "a.toml, line 1, levels: must be a table"),
        ("agent = 4", "a.toml, line 1, agent: must be a table: [agent]"),
        ("[agent]\nmoda = 1", "a.toml, line 2, agent.moda: cannot be set here"),
        ('[agent]\nmode = "repare"', "a.toml, line 2, agent.mode: must be one of observe, isolate, repair"),
        ("[agent]\nmode = []", "a.toml, line 2, agent.mode: must be one of observe, isolate, repair"),
        (
            "[agent]\npoll_seconds = -1",
            "a.toml, line 2, agent.poll_seconds: must be a number of seconds, 0.1 or more, at most 1000000000",
        ),
        ("[agent]\ncheck_command = 'a \"b'", "a.toml, line 2, agent.check_command: must be a command in one string"),
        ('[agent]\ncheck_command = ""', "a.toml, line 2, agent.check_command: must be a command in one string"),
        ('[agent]\ncheck_command = ["a"]', "a.toml, line 2, agent.check_command: must be a command in one string"),
        (
            '[agent]\ndcgm_url = "localhost:9400"',
            "a.toml, line 2, agent.dcgm_url: must be an address such as http://localhost:9400/metrics",
        ),
        ('[agent]\nreset_unqualified = "yes"', "a.toml, line 2, agent.reset_unqualified: must be true or false"),
        ("[brake]\nshare = 0", "a.toml, line 2, brake.share: must be a number above 0, at most 1"),
        ("[brake]\nshare = 1.5", "a.toml, line 2, brake.share: must be a number above 0, at most 1"),
        ("[budget]\ngpus = 0", "a.toml, line 2, budget.gpus: must be a whole number, 1 or more, at most 1000000000"),
        (
            "[budget]\nhardware = 1.5",
            "a.toml, line 2, budget.hardware: must be a whole number, 1 or more, at most 1000000000",
        ),
        ("[budget]\nxid = 1", "a.toml, line 2, budget.xid: cannot be set here"),
        ("classes = [1]", "a.toml, line 1, classes: must be a table"),
        ('[levels]\n"xid:92" = "P9"', "a.toml, line 2, levels.xid:92: 'P9' is unknown"),
        ('[levels]\n"xid:92" = ["P1"]', "a.toml, line 2, levels.xid:92: ['P1'] is unknown"),
        ('[levels]\n"xid:92" = 1', "a.toml, line 2, levels.xid:92: 1 is unknown"),
        ('[levels]\n\nbus_lost = "P1"', "a.toml, line 3, levels.bus_lost: names no fault"),
        ('[levels]\n"xid:079" = "P1"', "a.toml, line 2, levels.xid:079: names no fault"),
        ('[levels]\n"XID:79" = "P1"', "a.toml, line 2, levels.XID:79: names no fault"),
        ('[levels]\n"79" = "P1"', "a.toml, line 2, levels.79: names no fault"),
        ('levels."xid:" = "P1"', "a.toml, line 1, levels.xid:: names no fault"),
        ('[classes]\n"xid:92" = "hw"', "a.toml, line 2, classes.xid:92: 'hw' is unknown"),
        ("rules = 3", 'a.toml, line 1, rules: must be tables such as [rules."R31-same-gpu"]'),
        ("[rules]\nR79-line = 3", 'a.toml, line 2, rules.R79-line: must be a table: [rules."R79-line"]'),
        (
            "[rules.R-nope]\ncount = 2",
            "a.toml, line 1, rules.R-nope: there is no such rule; `gpuward explain --list` names them",
        ),
        ("[rules.R79-line]\nwaits = true", "a.toml, line 2, rules.R79-line.waits: cannot be set here"),
        ("[rules.R79-line]\ngap_seconds = 3", "a.toml, line 2, rules.R79-line.gap_seconds: cannot be set here"),
        ("[rules.I-all]\ncount = 3", "a.toml, line 2, rules.I-all.count: cannot be set here"),
        (
            "[rules.R79-line]\ncount = 0",
            "a.toml, line 2, rules.R79-line.count: must be a whole number, 1 or more, at most 1000000000",
        ),
        (
            "[rules.R79-line]\ncount = 2.5",
            "a.toml, line 2, rules.R79-line.count: must be a whole number, 1 or more, at most 1000000000",
        ),
        (
            '[rules.R79-line]\ncount = "2"',
            "a.toml, line 2, rules.R79-line.count: must be a whole number, 1 or more, at most 1000000000",
        ),
        (
            "[rules.R79-line]\ncount = true",
            "a.toml, line 2, rules.R79-line.count: must be a whole number, 1 or more, at most 1000000000",
        ),
        ("[rules.R79-line]\nenabled = 1", "a.toml, line 2, rules.R79-line.enabled: must be true or false"),
        *(
            (
                f"[rules.R79-line]\nbefore_seconds = {value}",
                (
                    "a.toml, line 2, rules.R79-line.before_seconds: "
                    "must be a number of seconds, 0 or more, at most 1000000000"
                ),
            )
            for value in ("-1", "nan", "inf", "true", '"60"', "[60]", "2026-11-30")
        ),
    ],
)
def test_a_mistake_is_named_with_its_line_and_its_field(text: str, mistake: str) -> None:
    assert mistakes(text) == [mistake]


@pytest.mark.parametrize("law", ["R-origin", "R-two-part"])
@pytest.mark.parametrize("column", ["enabled = false", "enabled = true", "count = 1", "before_seconds = 5", "x = 1"])
def test_a_law_can_neither_be_tuned_nor_turned_off(law: str, column: str) -> None:
    (mistake,) = mistakes(f"[rules.{law}]\n{column}")
    assert mistake.startswith(f"a.toml, line 1, rules.{law}: is a law: settings can neither tune it nor turn it off")


def test_what_is_allowed_is_said() -> None:
    with pytest.raises(SettingsError, match="allowed are default, intent, nvidia"):
        read('profile = "x"')
    with pytest.raises(SettingsError, match="allowed are P0, P1, P2, ignore"):
        read('levels."xid:1" = "x"')


def test_all_mistakes_are_named_at_once_each_on_its_own_line() -> None:
    text = """\
# profile count levels: words of a comment are no place
profile = "x"
[levels]  # xid:5
"xid:5" = "P7"
[classes]
"xid:5" = "hw"
[rules."R31-same-gpu"]
count = -1
[rules."R79-line"]
count = -1
"""
    assert [mistake.partition(":")[0] for mistake in mistakes(text)] == [
        "a.toml, line 2, profile",
        "a.toml, line 4, levels.xid",
        "a.toml, line 6, classes.xid",
        "a.toml, line 8, rules.R31-same-gpu.count",
        "a.toml, line 10, rules.R79-line.count",
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("rules = {R79-line = {count = 0}}", 1),
        ("\n[rules]\nR79-line = {count = 0}", 3),
        ("\n[rules]\nR79-line.count = 0", 3),
        ("\nrules.R79-line.count = 0", 2),
        ('\n[ rules . "R79-line" ] # x\n\n  count=0 # y', 4),
        ("\r\n[rules.R79-line]\r\ncount = 0\r\n", 3),
        ("[rules]\n[rules.I-all]\ngap_seconds = 1\n[rules.R79-line]\ncount = 0", 5),
    ],
)
def test_the_line_is_found_however_the_table_is_written(text: str, line: int) -> None:
    (mistake,) = mistakes(text)
    assert mistake.startswith(f"a.toml, line {line}, rules.R79-line.count: ")


@pytest.mark.parametrize(
    "text",
    ["profile", "a = ", "[levels", "a = 1\na = 2", "\x00", "x = " + "[" * 5000, "x = " + "9" * 5000, 'a = "\\ud800"'],
)
def test_what_is_no_toml_is_told_as_such(text: str) -> None:
    (mistake,) = mistakes(text)
    assert mistake.startswith("a.toml: not TOML: ")


toml_values = st.one_of(
    st.booleans().map(lambda value: str(value).lower()),
    st.integers(-(10**6), 10**6).map(str),
    st.floats().map(str).map(lambda text: text if set(text) & set(".na") else f"{text.partition('e')[0]}.0"),
    st.sampled_from(['"P1"', '"nvidia"', '"hardware"', '"lower_48"', "[]", '["lower_48"]', "{}", "07:30:00"]),
)
toml_keys = st.sampled_from(
    [
        "profile",
        "options",
        "levels",
        "classes",
        "rules",
        "x",
        'levels."xid:5"',
        "rules.I-all.gap_seconds",
        "rules.R79-line.count",
    ]
)


@with_settings(deadline=None)
@given(st.dictionaries(toml_keys, toml_values, max_size=4))
def test_a_document_is_either_read_or_each_of_its_mistakes_is_named(table: dict[str, str]) -> None:
    text = "".join(f"{key} = {value}\n" for key, value in table.items())
    told = "a.toml"
    try:
        read(text)
    except SettingsError as error:
        told = str(error)
    assert all(line.startswith("a.toml") for line in told.splitlines())


LINES = [
    "2026-11-20T03:12:07+00:00 ember kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=x, GPU fell off the bus.",
    "2026-11-20T04:00:00+00:00 ember kernel: NVRM: Xid (PCI:0000:86:00): 43, pid=2, name=y, Ch 00000010",
    "2026-11-20T05:00:00+00:00 ember kernel: NVRM: GPU 0000:af:00.0: RmInitAdapter failed! (0x23:0x65:1)",
    "2026-11-20T06:00:00+00:00 ember kernel: nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 1 x",
]


def scan(capsys: pytest.CaptureFixture[str], folder: Path, config: str, *words: str) -> Answer:
    file = folder / "gpuward.toml"
    file.write_text(config, encoding="utf-8")
    return ask(capsys, "scan", "--json", "--all", "--config", file, *words, written(folder, LINES))


def column(answer: Answer, key: str) -> list[Any]:
    return [one[key] for one in answer.objects()]


def test_levels_and_classes_reach_the_faults_of_a_scan(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert column(scan(capsys, tmp_path, ""), "level") == ["P0", "P2", "P1", "P2"]
    config = (
        '[levels]\n"xid:79" = "ignore"\n"xid:43" = "P0"\nrm_init_failed = "P2"\n"sxid:12028" = "P1"\n'
        '[classes]\n"xid:79" = "application"\nrm_init_failed = "unknown"\n'
    )
    answer = scan(capsys, tmp_path, config)
    assert column(answer, "level") == ["ignore", "P0", "P2", "P1"]
    assert column(answer, "class")[0] == "application"
    assert column(answer, "class")[2] == "unknown"
    assert "as set in the settings" in answer.objects()[0]["because"]


def test_a_level_of_the_settings_decides_the_exit_code(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    quiet = '[levels]\n"xid:79" = "P2"\nrm_init_failed = "P2"\n'
    assert scan(capsys, tmp_path, "").code == 1
    assert scan(capsys, tmp_path, quiet).code == 0


def test_a_profile_on_the_command_line_goes_before_that_of_the_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = tmp_path / "gpuward.toml"
    config.write_text('profile = "nvidia"\n[levels]\n"xid:43" = "P1"\n', encoding="utf-8")
    log = written(tmp_path, [LINES[0].replace("79, ", "63, "), LINES[1]])
    words = ["scan", "--json", "--config", str(config)]
    assert column(ask(capsys, *words, log), "level") == ["P2", "P1"]
    assert column(ask(capsys, *words, "--profile", "default", log), "level") == ["P1", "P1"]


def test_the_count_of_a_rule_reaches_the_faults_of_a_scan(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    hours = (1, 3, 5)
    line = "2026-11-20T{:02d}:00:00+00:00 ember kernel: NVRM: Xid (PCI:0000:3b:00): 31, pid=1, name=x, Ch 00000008"
    log = written(tmp_path, [line.format(hour) for hour in hours])
    config = tmp_path / "gpuward.toml"
    classes = []
    for text in ("", '[rules."R31-same-gpu"]\ncount = 4\n', '[rules."R31-same-gpu"]\nenabled = false\n'):
        config.write_text(text, encoding="utf-8")
        classes.append(column(ask(capsys, "scan", "--json", "--config", config, log), "class"))
    assert "hardware" in classes[0]
    assert "hardware" not in classes[1]
    assert "hardware" not in classes[2]


def test_the_gap_of_an_identity_reaches_the_faults_of_a_scan(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    line = "2026-11-20T03:{:02d}:00+00:00 ember kernel: NVRM: Xid (PCI:0000:3b:00): 13, Graphics Exception"
    log = written(tmp_path, [line.format(minute) for minute in (0, 1, 2)])
    config = tmp_path / "gpuward.toml"
    counts = []
    for seconds in (180, 30):
        config.write_text(f"[rules.I-all]\ngap_seconds = {seconds}\n", encoding="utf-8")
        counts.append(column(ask(capsys, "scan", "--json", "--all", "--config", config, log), "count"))
    assert counts == [[3], [1, 1, 1]]


@pytest.mark.parametrize("command", [["scan", "/dev/null"], ["explain", "79"]])
def test_wrong_settings_are_exit_code_2_before_anything_runs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: list[str]
) -> None:
    config = tmp_path / "gpuward.toml"
    config.write_text('\nprofile = "x"\noptoins = []\n', encoding="utf-8")
    answer = ask(capsys, *command, "--config", config)
    assert (answer.code, answer.out) == (2, "")
    assert f"{config}, line 3, optoins: " in answer.err
    assert f"{config}, line 2, profile: " in answer.err


def test_a_file_that_is_named_and_missing_is_exit_code_2(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    answer = ask(capsys, "scan", "--config", tmp_path / "none.toml", "/dev/null")
    assert answer.code == 2
    assert answer.err == f"gpuward scan: --config: there is no file {tmp_path / 'none.toml'}\n"


def test_a_file_that_cannot_be_read_is_exit_code_2(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    latin = tmp_path / "latin.toml"
    latin.write_bytes(b"# caf\xe9\n")
    for config in (tmp_path, latin, tmp_path / ("x" * 300)):
        answer = ask(capsys, "scan", "--config", config, "/dev/null")
        assert (answer.code, answer.out) == (2, "")
        reasons = ("cannot be read", "is no regular file", "there is no file")
        assert f"--config: {config}" in answer.err or "there is no file" in answer.err
        assert any(reason in answer.err for reason in reasons)


def test_a_file_that_an_editor_of_windows_wrote_is_read(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config = tmp_path / "gpuward.toml"
    config.write_bytes(b'\xef\xbb\xbfprofile = "nvidia"\r\n')
    assert ask(capsys, "scan", "--config", config, "/dev/null").code == 0


def test_mistakes_cannot_write_on_the_terminal(tmp_path: Path) -> None:
    config = tmp_path / "gpuward.toml"
    config.write_text('[levels]\n"\\u001b[31m" = "\\u001b[0m"\n', encoding="utf-8")
    answer = ask_process("scan", "--config", os.fspath(config), os.devnull)
    assert answer.code == 2
    assert "\x1b" not in answer.err
