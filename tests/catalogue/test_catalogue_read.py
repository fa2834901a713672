"""Every mistake in a file of the code book is told with its place, its column and what is allowed."""

import csv
import io
import pkgutil
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuward.isolation.catalogue import read
from gpuward.isolation.catalogue.read import CatalogueError, Sheet

XID = "code,mnemonic,title,category,severity,immediate_action,investigatory_action,needs,possible_causes,applies_to,"
XID += "obsolete,notes,source\n"
XID_ROW = "900,NAME,A title,memory,fatal,RESET_GPU,CONTACT_SUPPORT,reset_gpu,,,false,,a source\n"
POLICY = "code,default,nvidia,intent,class,nvidia_note,reason,source\n"
POLICY_ROW = "900,P0,P1,P2,hardware,,a reason,a source\n"
SXID = "code,title,fatal,action,scope,notes,source\n"
REGISTER = "register,bit,meaning,benign,sentence,source\n"
RECOVERY = "value,labels,level,sentence,source\n"
ACTION = "word,sentence,once_free,acts,source\n"

READERS: dict[str, Callable[[str], Sheet[Any]]] = {
    "xid.csv": read.read_xids,
    "sxid.csv": read.read_sxids,
    "nvlink5.csv": read.read_nvlinks,
    "policy.csv": read.read_policies,
    "policy_other.csv": read.read_others,
    "nvlink74.csv": read.read_registers,
    "actions.csv": read.read_actions,
    "recovery.csv": read.read_recoveries,
}


def packaged(file: str) -> str:
    content = pkgutil.get_data("gpuward.isolation.catalogue", f"data/{file}")
    assert content is not None
    return content.decode()


def mistakes(reader: Callable[[str], object], text: str) -> tuple[str, ...]:
    with pytest.raises(CatalogueError) as raised:
        reader(text)
    assert str(raised.value).splitlines() == list(raised.value.mistakes)
    return raised.value.mistakes


def a_link(**changes: str) -> str:
    """Return nvlink5.csv with one row, with `changes` made."""
    table = csv.DictReader(io.StringIO(packaged("nvlink5.csv")))
    row = {**next(table), **changes}
    return ",".join(row) + "\n" + ",".join(f'"{cell}"' for cell in row.values()) + "\n"


@pytest.mark.parametrize("file", sorted(READERS))
def test_every_row_of_every_file_is_read(file: str) -> None:
    rows = list(csv.reader(io.StringIO(packaged(file))))[1:]
    sheet = READERS[file](packaged(file))
    assert len(sheet.rows) == len(sheet.lines) == len(rows)
    assert sheet.lines == tuple(range(2, len(rows) + 2))


@pytest.mark.parametrize("file", sorted(READERS))
def test_a_row_without_a_source_is_refused_in_every_file(file: str) -> None:
    header, first, *rest = csv.reader(io.StringIO(packaged(file)))
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([header, [*first[:-1], " "], *rest])
    assert mistakes(READERS[file], out.getvalue())[0] == (
        f"{file} line 2, column source: is empty; name where the fact comes from"
    )


@pytest.mark.parametrize("file", sorted(READERS))
def test_a_missing_an_unknown_and_a_moved_column_are_told(file: str) -> None:
    header, *rows = packaged(file).splitlines()
    names = header.split(",")
    body = "\n".join(rows)
    renamed = mistakes(READERS[file], ",".join(["nonsense", *names[1:]]) + "\n" + body)
    assert renamed[0].startswith(f"{file} line 1, column {names[0]}: is missing; the columns are ")
    assert renamed[1].startswith(f"{file} line 1, column nonsense: is not known; the columns are ")
    moved = mistakes(READERS[file], ",".join([names[-1], *names[1:-1], names[0]]) + "\n" + body)
    assert moved == (f"{file} line 1, column {names[-1]}: is out of order or twice; the columns are {header}",)
    assert mistakes(READERS[file], "")[0].startswith(f"{file} line 1, column {names[0]}: is missing")


@pytest.mark.parametrize(
    ("reader", "text", "told"),
    [
        (read.read_xids, XID + XID_ROW.replace("RESET_GPU", "KICK_IT"), "xid.csv line 2, column immediate_action: 'KICK_IT' is not one of: 'CONTACT_SUPPORT', "),  # noqa: E501  # the sentence as it is told
        (read.read_xids, XID + XID_ROW.replace("CONTACT_SUPPORT", "ASK"), "xid.csv line 2, column investigatory_action: 'ASK' is not one of: "),  # noqa: E501  # as above
        (read.read_xids, XID + XID_ROW.replace("reset_gpu", "luck"), "xid.csv line 2, column needs: 'luck' is not one of: 'none', "),  # noqa: E501  # as above
        (read.read_xids, XID + XID_ROW.replace("memory", "moon"), "xid.csv line 2, column category: 'moon' is not one of: "),  # noqa: E501  # as above
        (read.read_xids, XID + XID_ROW.replace("fatal", "bad"), "xid.csv line 2, column severity: 'bad' is not one of: 'info', 'warning', 'critical', 'fatal'"),  # noqa: E501  # as above
        (read.read_xids, XID + XID_ROW.replace("false", "no"), "xid.csv line 2, column obsolete: 'no' is not one of: 'true', 'false'"),  # noqa: E501  # as above
        (read.read_xids, XID + XID_ROW.replace("A title", " "), "xid.csv line 2, column title: is empty; write it out"),
        (read.read_xids, XID + XID_ROW.replace("900", "nine"), "xid.csv line 2, column code: 'nine' is not a number; write digits only"),  # noqa: E501  # as above
        (read.read_xids, XID + XID_ROW.replace("900", "-1"), "xid.csv line 2, column code: '-1' is not a number; "),
        (read.read_xids, XID + XID_ROW.replace("900", "1234567"), "xid.csv line 2, column code: 1234567 is too large; at most 99999"),  # noqa: E501  # as above
        (read.read_xids, XID + XID_ROW + XID_ROW, "xid.csv line 3, column code: repeats line 2; "),
        (read.read_xids, XID + "900,NAME\n", "xid.csv line 2, column code: the line has 2 cells; a row has 13"),
        (read.read_policies, POLICY + POLICY_ROW.replace("P1", "P9"), "policy.csv line 2, column nvidia: 'P9' is not one of: 'P0', 'P1', 'P2', 'ignore', "),  # noqa: E501  # as above
        (read.read_policies, POLICY + POLICY_ROW.replace("hardware", "fate"), "policy.csv line 2, column class: 'fate' is not one of: 'hardware', 'driver', 'application', 'unknown'"),  # noqa: E501  # as above
        (read.read_policies, POLICY + POLICY_ROW + POLICY_ROW, "policy.csv line 3, column code: repeats line 2; "),
        (read.read_sxids, SXID + "11000,A title,maybe,log,port,,a source\n", "sxid.csv line 2, column fatal: 'maybe' is not one of: "),  # noqa: E501  # as above
        (read.read_sxids, SXID + "11000,A title,true,log,world,,a source\n", "sxid.csv line 2, column scope: 'world' is not one of: 'port', 'switch', 'fabric'"),  # noqa: E501  # as above
        (read.read_registers, REGISTER + "2,0,ignorable,true,Carry on.,a source\n", "nvlink74.csv line 2, column register: '2' is not one of: '1', '3', '4', '5'"),  # noqa: E501  # as above
        (read.read_registers, REGISTER + "1,32,ignorable,true,Carry on.,a source\n", "nvlink74.csv line 2, column bit: 32 is too large; at most 31"),  # noqa: E501  # as above
        (read.read_registers, REGISTER + "1,0,lucky,true,Carry on.,a source\n", "nvlink74.csv line 2, column meaning: 'lucky' is not one of: "),  # noqa: E501  # as above
        (read.read_recoveries, RECOVERY + "1,Reset,P9,Reset it.,a source\n", "recovery.csv line 2, column level: 'P9' is not one of: 'ignore', 'P2', 'P1', 'P0'"),  # noqa: E501  # as above
        (read.read_recoveries, RECOVERY + "1,Reset|,P0,Reset it.,a source\n", "recovery.csv line 2, column labels: is empty; "),  # noqa: E501  # as above
        (read.read_recoveries, RECOVERY + "1,Reset,P0,Go.,s\n2,Boot|reset,P0,Go.,s\n", "recovery.csv line 3, column labels: repeats line 2; "),  # noqa: E501  # as above
        (read.read_actions, ACTION + "KICK_IT,Kick it.,Kick it.,true,a source\n", "actions.csv line 2, column word: 'KICK_IT' is not one of: "),  # noqa: E501  # as above
    ],
)  # fmt: skip
def test_a_wrong_cell_is_told_with_its_place_and_what_is_allowed(
    reader: Callable[[str], object], text: str, told: str
) -> None:
    (mistake,) = mistakes(reader, text)
    assert mistake.startswith(told)


@pytest.mark.parametrize(
    ("changes", "column", "told"),
    [
        ({"v2_value": "0x10000001"}, "v2_mask", "0x03F0007F does not contain its value 0x10000001; widen the mask"),
        ({"v1_value": "0x00000022"}, "intrinfo_bits_v1", "disagrees with v1_mask and v1_value; make them equal"),
        ({"v1_value": ""}, "v1_value", "stands without v1_mask or the reverse; give both or none"),
        ({"v1_mask": "63"}, "v1_mask", "'63' is not a number; write 0x and hexadecimal digits"),
        ({"v1_mask": "0xZZ"}, "v1_mask", "'0xZZ' is not a number; write 0x and hexadecimal digits"),
        ({"intrinfo_bits_v1": "01x"}, "intrinfo_bits_v1", "'01x' is not 32 bits; draw each as 0, 1 or -"),
        ({"error_status": "often"}, "error_status", "'often' is not a number; write 0x and hexadecimal digits"),
        ({"recovery": "PRAY"}, "recovery", "'PRAY' is not one of: "),
        ({"severity": "Sad"}, "severity", "'Sad' is not one of: 'Non-fatal', 'Fatal', 'Link Fatal', 'not published'"),
        ({"investigate": "LATER"}, "investigate", "'LATER' is not one of: "),
        ({"action2": "RESET_GPU"}, "action2", "stands without its bits or the reverse; give both or none"),
    ],
)
def test_a_wrong_decode_row_is_told(changes: dict[str, str], column: str, told: str) -> None:
    (mistake,) = mistakes(read.read_nvlinks, a_link(**changes))
    assert mistake.startswith(f"nvlink5.csv line 2, column {column}: {told}")


def test_a_decode_row_may_not_be_given_twice() -> None:
    once = a_link()
    twice = once + once.splitlines()[1] + "\n"
    assert mistakes(read.read_nvlinks, twice)[0].startswith("nvlink5.csv line 3, column xid: repeats line 2")


def test_all_mistakes_of_a_file_are_told_together() -> None:
    text = POLICY + POLICY_ROW.replace("P0", "P8").replace("a source", "") + "x" + POLICY_ROW
    assert [mistake.partition(":")[0] for mistake in mistakes(read.read_policies, text)] == [
        "policy.csv line 2, column default",
        "policy.csv line 2, column source",
        "policy.csv line 3, column code",
    ]


def test_a_policy_without_an_xid_and_an_xid_without_a_policy_are_both_told() -> None:
    xids = read.read_xids(XID + XID_ROW)
    policies = read.read_policies(POLICY + POLICY_ROW.replace("900", "901"))
    with pytest.raises(CatalogueError) as raised:
        read.require_same_codes(xids, policies)
    assert raised.value.mistakes == (
        "policy.csv line 2, column code: 901 has no row in xid.csv; add one there or take this one out",
        "xid.csv line 2, column code: 900 has no row in policy.csv; add one there or take this one out",
    )


def test_a_bucket_without_a_sentence_is_told() -> None:
    lines = packaged("actions.csv").splitlines(keepends=True)
    text = "".join(line for line in lines if not line.startswith("RESTART_BM,"))
    assert mistakes(read.read_actions, text) == (
        f"actions.csv line {len(lines) - 1}, column word: 'RESTART_BM' has no row; add one",
    )


def refused(reader: Callable[[str], object], text: str) -> tuple[str, ...]:
    """Return the mistakes in `text`, none when it is read. Anything but a CatalogueError fails the test."""
    try:
        reader(text)
    except CatalogueError as error:
        return error.mistakes
    return ()


@given(st.text(max_size=200))
def test_any_text_that_is_no_table_is_refused_with_a_place(text: str) -> None:
    for file, reader in READERS.items():
        told = refused(reader, text)
        assert told
        assert all(mistake.startswith(f"{file} line ") for mistake in told)


@given(st.lists(st.text(alphabet=st.characters(exclude_characters="\r\n"), max_size=12), min_size=8, max_size=8))
def test_any_cells_are_read_or_refused_with_their_column(cells: list[str]) -> None:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(cells)
    assert all(
        mistake.startswith("policy.csv line ") for mistake in refused(read.read_policies, POLICY + out.getvalue())
    )
