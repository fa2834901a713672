"""What `gpuward scan` shows of good logs: table, JSON, filters, exit codes. Bad input is tried elsewhere."""

import os
import re
from pathlib import Path

import pytest

from tests.kit.commands import Answer, ask, ask_process, written

LOST = (
    "2026-11-20T03:12:07.250000+00:00 ember kernel: [  100.000000] NVRM: Xid (PCI:0000:3b:00): 79, pid=4321, "
    "name=train, GPU has fallen off the bus."
)
MMU = "2026-11-20T09:00:00+00:00 ember kernel: [21000.0] NVRM: Xid (PCI:0000:86:00): 31, pid=77, name=infer, Ch 08"
RESTART = "2026-11-20T07:00:00+00:00 ember kernel: [14000.0] NVRM: Xid (PCI:0000:af:00): 43, pid=99, name=job, Ch 10"
INJECTED = "2026-11-20T05:00:00+00:00 ember kernel: [ 7000.000000] NVRM: Xid (PCI:0000:3b:00): 14, injected"
SWITCH = (
    "2026-11-20T06:00:00+00:00 ember kernel: [10000.000000] nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 12028, "
    "Non-fatal, Link 44 egress non-posted PRIV error (First)"
)
GPU_UUID = "GPU-01234567-89ab-cdef-0123-456789abcdef"
UUID = f"2026-11-20T03:00:00+00:00 ember kernel: [   20.000000] NVRM: GPU at PCI:0000:3b:00: {GPU_UUID}"
FAULT_KEYS = [
    "time",
    "last",
    "node",
    "pci",
    "gpu_uuid",
    "kind",
    "code",
    "level",
    "class",
    "title",
    "action",
    "because",
    "pid",
    "process",
    "mig",
    "count",
    "evidence",
    "details",
]


def scan(capsys: pytest.CaptureFixture[str], folder: Path, lines: list[str], *words: str) -> Answer:
    return ask(capsys, "scan", "--timezone", "UTC", *words, written(folder, lines))


def codes(answer: Answer) -> list[int]:
    return [one["code"] for one in answer.objects()]


def test_a_fault_has_exactly_the_promised_keys_in_their_order(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    answer = scan(capsys, tmp_path, [LOST, MMU, SWITCH], "--json")
    assert [list(one) for one in answer.objects()] == [FAULT_KEYS] * 3


def test_a_fault_says_what_its_lines_say(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    fault = scan(capsys, tmp_path, [UUID, LOST], "--json").object()
    assert {key: fault[key] for key in FAULT_KEYS if key not in {"title", "action", "because", "details"}} == {
        "time": "2026-11-20T03:12:07.250000Z",
        "last": "2026-11-20T03:12:07.250000Z",
        "node": "ember",
        "pci": "0000:3b:00",
        "gpu_uuid": GPU_UUID,
        "kind": "xid",
        "code": 79,
        "level": "P0",
        "class": "hardware",
        "pid": 4321,
        "process": "train",
        "mig": None,
        "count": 1,
        "evidence": [{"line": 2, "text": LOST}],
    }
    assert "79" in fault["because"]
    assert fault["action"]


def test_what_is_not_known_is_null(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    fault = scan(capsys, tmp_path, ["NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."], "--json").object()
    unknown = ("time", "last", "node", "gpu_uuid", "pid", "process", "mig")
    assert [fault[key] for key in unknown] == [None] * len(unknown)


def test_the_mig_instance_is_an_object_with_both_numbers(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    both = LOST.replace("0000:3b:00)", "0000:3b:00 GPU-I:02 GPU-CI:01)")
    one = LOST.replace("0000:3b:00)", "0000:3b:00 GPU-I:02)")
    assert scan(capsys, tmp_path, [both], "--json").object()["mig"] == {"gi": 2, "ci": 1}
    assert scan(capsys, tmp_path, [one], "--json").object()["mig"] == {"gi": 2, "ci": None}


def test_lines_of_one_fault_are_counted_and_kept_as_evidence(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lines = [MMU.replace(":00:00+", f":00:{second:02d}+") for second in range(10)]
    fault = scan(capsys, tmp_path, lines, "--json").object()
    assert fault["count"] == 10
    assert fault["time"] == "2026-11-20T09:00:00.000000Z"
    assert fault["last"] == "2026-11-20T09:00:09.000000Z"
    assert fault["evidence"][0] == {"line": 1, "text": lines[0]}
    assert fault["evidence"][-1] == {"line": 10, "text": lines[-1]}
    assert len(fault["evidence"]) <= 6


def test_faults_come_oldest_first_whatever_gpu_they_are_of(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert codes(scan(capsys, tmp_path, [LOST, SWITCH, RESTART, MMU], "--json")) == [79, 12028, 43, 31]


@pytest.mark.parametrize(
    ("lines", "code"),
    [([LOST], 1), ([MMU], 1), ([RESTART], 0), ([SWITCH], 0), ([INJECTED], 0), ([], 0), (["nothing here"], 0)],
)
def test_the_exit_code_is_1_from_p1_on_and_else_0(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, lines: list[str], code: int
) -> None:
    assert scan(capsys, tmp_path, lines).code == code
    assert scan(capsys, tmp_path, lines, "--json").code == code


def test_an_input_that_cannot_be_read_is_named_the_others_are_read_and_it_wins(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    good = written(tmp_path, [LOST])
    answer = ask(capsys, "scan", "--json", tmp_path / "missing.log", good, tmp_path)
    assert answer.code == 3
    assert codes(answer) == [79]
    assert f"{tmp_path / 'missing.log'} is not there" in answer.err
    assert f"{tmp_path} is a folder" in answer.err


def test_the_end_tells_lines_read_recognised_and_unparsed_on_standard_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    answer = scan(capsys, tmp_path, ["other", UUID, LOST, "NVRM: Xid (PCI:0000:3b", "NVRM: some chatter"], "--json")
    assert answer.err.splitlines()[-1] == "gpuward: 5 lines read, 2 recognised, 1 unparsed"
    assert "lines read" not in answer.out


def test_an_empty_log_is_quiet_and_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    empty = tmp_path / "empty.log"
    empty.touch()
    answer = ask(capsys, "scan", empty)
    assert answer == Answer(0, "No fault to show.\n", "gpuward: 0 lines read, 0 recognised, 0 unparsed\n")
    assert ask(capsys, "scan", "--json", empty).out == ""


@pytest.mark.parametrize("words", [[], ["-"]])
def test_standard_input_is_read_for_a_dash_and_when_no_file_is_named(words: list[str]) -> None:
    answer = ask_process("scan", "--json", *words, stdin=f"{LOST}\n".encode())
    assert codes(answer) == [79]
    assert answer.code == 1


def test_rotated_logs_may_be_named_in_any_order(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    older = written(tmp_path, [LOST, RESTART], "kern.log.1")
    newer = written(tmp_path, [MMU], "kern.log")
    first = ask(capsys, "scan", "--json", newer, older)
    assert first.out == ask(capsys, "scan", "--json", older, newer).out
    assert codes(first) == [79, 43, 31]


def test_a_record_that_stands_in_two_logs_is_counted_once(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    logs = [written(tmp_path, [MMU], "kern.log"), written(tmp_path, ["other", MMU], "syslog")]
    assert ask(capsys, "scan", "--json", *logs).object()["count"] == 1


def test_a_fault_that_goes_on_in_a_newer_log_is_one_whichever_is_named_first(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    older = written(tmp_path, ["other", MMU], "kern.log.1")
    newer = written(tmp_path, [MMU.replace("09:00:00", "09:00:30").replace("[21000", "[21030")], "kern.log")
    fault = ask(capsys, "scan", "--json", newer, older).object()
    assert (fault["count"], fault["time"], fault["last"]) == (
        2,
        "2026-11-20T09:00:00.000000Z",
        "2026-11-20T09:00:30.000000Z",
    )
    assert [line["line"] for line in fault["evidence"]] == [2, 1]


def test_what_is_graded_ignore_is_counted_and_shown_with_all(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    hidden = scan(capsys, tmp_path, [INJECTED], "--json")
    assert hidden.out == ""
    assert "1 fault graded ignore is not shown; --all shows them" in hidden.err
    for words in (["--all"], ["--level", "ignore"]):
        shown = scan(capsys, tmp_path, [INJECTED], "--json", *words)
        assert [one["level"] for one in shown.objects()] == ["ignore"]
        assert "not shown" not in shown.err


@pytest.mark.parametrize(
    ("level", "wanted"), [("P0", [79]), ("P1", [79, 31]), ("P2", [79, 43, 31]), ("ignore", [79, 14, 43, 31])]
)
def test_level_shows_this_level_and_worse(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, level: str, wanted: list[int]
) -> None:
    lines = [LOST, INJECTED, RESTART, MMU]
    assert codes(scan(capsys, tmp_path, lines, "--json", "--level", level)) == wanted
    assert codes(scan(capsys, tmp_path, lines, "--json", "--all", "--level", level)) == wanted


def test_logs_without_a_time_come_after_those_with_one_in_the_order_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    older = written(tmp_path, [LOST, RESTART], "kern.log.1")
    newer = written(tmp_path, [MMU], "kern.log")
    bare = "NVRM: Xid (PCI:0000:3b:00): 48, DBE"
    timeless = [written(tmp_path, [f"[   10.000000] {bare}"], "dmesg.txt"), written(tmp_path, [bare], "copied.txt")]
    logs = [timeless[0], newer, timeless[1], older]
    rows = ask(capsys, "scan", "--lines", "--json", *logs).objects()
    assert [(row["code"], row["text"][:1]) for row in rows] == [(79, "2"), (43, "2"), (31, "2"), (48, "["), (48, "N")]


def test_control_characters_of_the_node_do_not_reach_the_terminal(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    bare = "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."
    for words in ([], ["--json"]):
        answer = scan(capsys, tmp_path, [bare], "--node", "fl\x1b[31mint\x07", *words)
        assert "fl?[31mint?" in answer.out
        assert not re.search(r"[\x00-\x09\x0b-\x1f]", answer.out)


def test_lines_that_quote_an_xid_are_told_with_how_to_see_them(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    quote = MMU.replace("kernel: [21000.0]", "checker[7]: saw")
    told = "2 lines name an Xid but were not written by the kernel (another program quoted it); they are not counted as"
    answer = scan(capsys, tmp_path, [quote, quote])
    assert f"{told} faults. See them with --lines\n" in answer.err
    assert "No fault to show." in answer.out
    by_line = scan(capsys, tmp_path, [quote, quote], "--lines")
    assert by_line.out.count("xid_quoted") == 2
    assert f"{told} faults\n" in by_line.err
    assert "1 line names an Xid but was not written by the kernel" in scan(capsys, tmp_path, [quote]).err


@pytest.mark.parametrize("make", ["folder", "pipe", "device", "large"])
def test_settings_that_are_no_settings_file_are_wrong_usage_at_once(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, make: str
) -> None:
    config = tmp_path / "gpuward.toml"
    match make:
        case "folder":
            config.mkdir()
        case "pipe":
            os.mkfifo(config)
        case "device":
            config.symlink_to("/dev/zero")
        case "large":
            config.write_bytes(b"#" * (1024 * 1024 + 1))
    answer = scan(capsys, tmp_path, [LOST], "--config", str(config))
    why = "larger than 1 MiB, so it is no settings file; name another" if make == "large" else "no regular file; name"
    assert (answer.code, answer.out) == (2, "")
    assert f"gpuward scan: --config: {config} is {why}" in answer.err


def test_settings_of_exactly_the_largest_size_are_read(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config = tmp_path / "gpuward.toml"
    text = b'levels."xid:79" = "P2"\n'
    config.write_bytes(text + b"#" * (1024 * 1024 - len(text)))
    assert scan(capsys, tmp_path, [LOST], "--json", "--config", str(config)).object()["level"] == "P2"


def test_node_names_only_what_names_no_machine_itself(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    bare = "[  100.000000] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."
    assert scan(capsys, tmp_path, [bare], "--json", "--node", "flint").object()["node"] == "flint"
    assert scan(capsys, tmp_path, [LOST], "--json", "--node", "flint").object()["node"] == "ember"


def test_a_profile_grades_its_own_way(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    line = LOST.replace("79, pid=4321, name=train, GPU has fallen off the bus.", "63, row remap pending")
    levels = {
        profile: scan(capsys, tmp_path, [line], "--json", "--profile", profile).object()["level"]
        for profile in ("default", "nvidia", "intent")
    }
    assert levels == {"default": "P1", "nvidia": "P2", "intent": "P1"}


def test_the_table_has_a_heading_for_each_gpu_and_a_column_for_each_fact(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = scan(capsys, tmp_path, [UUID, LOST, SWITCH, MMU]).out
    assert f"GPU 0000:3b:00 ({GPU_UUID}) on ember" in out
    assert "GPU 0000:86:00 on ember" in out
    assert "Switch 0000:05:00 on ember" in out
    heads = next(line for line in out.splitlines() if "FIRST" in line)
    words = [word.strip() for word in heads.strip("┃").split("┃")]
    assert words == ["FIRST", "LAST", "COUNT", "CODE", "TITLE", "LEVEL", "CLASS", "ACTION", "BECAUSE"]
    row = next(line for line in out.splitlines() if "03:12:07" in line)
    cells = [cell.strip() for cell in row.strip("│").split("│")]
    assert cells[:4] == ["2026-11-20 03:12:07", "2026-11-20 03:12:07", "1", "79"]
    assert cells[5:7] == ["P0", "hardware"]


def test_the_table_shows_times_in_the_zone_asked_for(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    answer = ask(capsys, "scan", "--timezone", "Asia/Shanghai", written(tmp_path, [LOST]))
    assert "2026-11-20 11:12:07" in answer.out


def test_a_fault_of_no_gpu_is_the_nodes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    line = (
        "2026-11-20T03:12:07+00:00 ember kernel: NVRM: API mismatch: the client has the version 570.1.2, but this "
        "kernel module has the version 575.51.02."
    )
    assert "Node on ember" in scan(capsys, tmp_path, [line]).out


def test_what_is_piped_has_no_colours(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "\x1b" not in scan(capsys, tmp_path, [LOST]).out


def test_faults_beyond_the_most_listed_are_counted_and_still_decide_the_exit_code(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuward.cli.scan.LISTED_MOST", 2)
    lines = [RESTART.replace("0000:af:00", f"0000:a{number}:00") for number in range(4)]
    answer = scan(capsys, tmp_path, [*lines, LOST], "--json")
    assert sorted(codes(answer)) == [43, 79]
    assert answer.err.splitlines()[0] == (
        "gpuward: 3 further faults are not listed (3 P2; every P0 and P1 is); narrow the time or the level"
    )
    assert answer.code == 1


@pytest.mark.parametrize("most", [1, 2, 3, 4])
@pytest.mark.parametrize("turned", [False, True])
def test_the_worst_faults_are_listed_and_a_p0_or_p1_always_is(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, *, turned: bool
) -> None:
    monkeypatch.setattr("gpuward.cli.scan.LISTED_MOST", most)
    lines = [INJECTED, RESTART, MMU, LOST]
    places = [f"{day:02d}T03:00:00" for day in (range(4, 0, -1) if turned else range(1, 5))]
    dated = sorted(re.sub(r"(?<=-11-)..T..:..:..", place, line) for place, line in zip(places, lines, strict=True))
    answer = scan(capsys, tmp_path, dated, "--json", "--all")
    kept = {1: {79, 31}, 2: {79, 31}, 3: {79, 31, 43}, 4: {79, 31, 43, 14}}[most]
    assert set(codes(answer)) == kept
    left_out = {2: "1 P2, 1 ignore", 3: "1 ignore"}.get(len(kept))
    assert (f"not listed ({left_out};" in answer.err) is (left_out is not None)


def test_the_table_ends_with_the_number_of_faults_of_each_level(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert scan(capsys, tmp_path, [LOST, MMU, RESTART, SWITCH]).out.splitlines()[-1] == "4 faults: 1 P0, 1 P1, 2 P2"
    assert scan(capsys, tmp_path, [LOST]).out.splitlines()[-1] == "1 fault: 1 P0"
