"""Write the pages that come from the rows and the commands; with --check, say which of them are out of date."""

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from math import prod
from pathlib import Path

from gpuward.agent.bench import PROOF
from gpuward.agent.sight import OBSTACLES
from gpuward.audit.preflight import ROWS
from gpuward.audit.rivals import RIVALS
from gpuward.audit.stack import GATE, STACK
from gpuward.cli.args import build_parser
from gpuward.cli.meaning import effect, sentence_of
from gpuward.isolation.catalogue.load import load, load_rules
from gpuward.isolation.catalogue.rules import Selector
from gpuward.isolation.clients import CLIENTS
from gpuward.isolation.conditions import Condition
from gpuward.isolation.fabric import FABRIC
from gpuward.isolation.grade import SEEN_KINDS
from gpuward.isolation.laws import STEP_LAWS, every_state_is_reachable, no_dead_ends, one_case_a_gpu
from gpuward.isolation.move import Of
from gpuward.isolation.table import MOVES
from gpuward.model.case import ENDED, ON_A_CLUSTER, ON_A_SERVER, CaseState
from gpuward.model.metric import METRICS, MOST_NAMES, Metric

DOCS = Path(__file__).resolve().parent.parent / "docs" / "reference"
_IN_STACK = f"A DaemonSet is one of its parts by its name, or when it asks for a label `{GATE}*` of its nodes."
MADE = "<!-- made by `make docs` from the rows; edit those -->"


def main() -> int:
    """Write or check the pages; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing, fail when a page is out of date")
    check = parser.parse_args().check
    stale = []
    for name, lines in pages().items():
        text = "\n".join(lines) + "\n"
        path = DOCS / name
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    if stale and check:
        sys.stderr.write(f"out of date, run `make docs`: {', '.join(stale)}\n")
        return 1
    return 0


def pages() -> dict[str, list[str]]:
    """Return every made page by its file name."""
    return {
        "commands.md": _commands(),
        "xids.md": _xids(),
        "sxids.md": _sxids(),
        "nvlink.md": _nvlinks(),
        "faults.md": _faults(),
        "rules.md": _rules(),
        "cases.md": _cases(),
        "preflight.md": _preflight(),
        "metrics.md": _metrics(),
        "fabric.md": _fabric(),
    }


def _fabric() -> list[str]:
    lines = ["# Labels of the network fabric", "", MADE, ""]
    lines += [
        "A node's block of the fabric is what the first of these labels says that it wears; the setting",
        "`fabric_labels` has others, or another order. Of two nodes that stand by, the one of the sick node's block",
        "takes its place. Known by: documentation.",
        "",
    ]
    rows = [[f"`{row.key}`", row.of, row.what, row.source] for row in FABRIC]
    return lines + _table(["Label", "Written by", "Names", "Source"], rows)


def _commands() -> list[str]:
    lines = ["# Commands", "", MADE, ""]
    for name, command in subcommands(build_parser()).items():
        lines += [f"## gpuward {name}", "", "```text", *(command.description or "").splitlines(), "```", ""]
        lines += _table(["Option", "Meaning"], [[_option(action), action.help] for action in _shown(command)])
        lines += ["", "```text", *(command.epilog or "").splitlines(), "```", ""]
    return lines[:-1]


def subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return every subcommand's parser by its name."""
    return {
        name: command
        for action in parser._actions  # noqa: SLF001  argparse offers no other way
        if isinstance(action.choices, dict)
        for name, command in action.choices.items()
    }


def _shown(command: argparse.ArgumentParser) -> list[argparse.Action]:
    return [action for action in command._actions if action.dest != "help"]  # noqa: SLF001  as above


def _option(action: argparse.Action) -> str:
    name = ", ".join(action.option_strings) or str(action.metavar)
    takes = action.metavar if isinstance(action.metavar, str) else " or ".join(map(str, action.choices or ()))
    return f"`{name} {takes}`" if action.option_strings and action.nargs != 0 else f"`{name}`"


def _metrics() -> list[str]:
    """Return every metric; the number of series of each is bounded, and told."""
    rows = [
        [f"`{row.name}`", row.kind, ", ".join(f"`{label.name}`" for label in row.labels), _series(row), row.says]
        for row in METRICS
    ]
    labels = {(label.name, label.says): label for row in METRICS for label in row.labels}
    names = f"names that people gave, {MOST_NAMES} at most"
    values = [[f"`{name}`", says, ", ".join(labels[name, says].values) or names] for name, says in sorted(labels)]
    heads = ["Metric", "Type", "Labels", "Series at most", "Meaning"]
    return [
        *("# Metrics", "", MADE, ""),
        "What `gpuward controller --metrics-port 9464` serves at `/metrics`. No label is a node, a GPU, a pod or a",
        "case; a value that is not of a label's set is shown as `other`.",
        *("", *_table(heads, rows), ""),
        "Beside these stand the `process_` metrics of the Prometheus client, such as `process_resident_memory_bytes`.",
        *("", "## Labels", "", *_table(["Label", "Meaning", "Values"], values)),
    ]


def _series(row: Metric) -> int:
    """Return how many series a metric has at most; a value beside its set is shown as one more."""
    series = prod((len(label.values) or MOST_NAMES) + 1 for label in row.labels)
    return series * (len(row.buckets) + 3 if row.buckets else 1)


def _xids() -> list[str]:
    book = load()
    rows = []
    for code in book.codes():
        xid, policy = book.xid(code), book.policy(code)
        if xid is None or policy is None:
            continue
        levels = [policy.levels[name] for name in ("default", "nvidia", "intent")]
        asked = [xid.immediate_action, xid.investigatory_action]
        rows.append([code, xid.title, *levels, policy.fault_class, *asked, policy.reason])
    heads = ["Xid", "Title", "default", "nvidia", "intent", "Class", "NVIDIA's action", "Investigation", "Why"]
    source = "Sources stand in each row of `xid.csv` and `policy.csv`; `gpuward explain CODE` prints them."
    return ["# Xids", "", MADE, "", source, "", *_table(heads, rows)]


def _sxids() -> list[str]:
    book = load()
    rows = []
    for code in book.sxid_codes():
        row = book.sxid(code)
        if row is not None:
            rows.append([code, row.title, "yes" if row.fatal else "no", row.scope, row.action])
    heads = ["SXid", "Title", "Fatal where the line says nothing", "Scope", "Action"]
    return ["# SXids", "", MADE, "", *_table(heads, rows)]


def _nvlinks() -> list[str]:
    book = load()
    rows = [
        [code, row.unit_v1, row.unit_v2, row.severity, row.recovery, row.investigate, row.origin, row.local_effect]
        for code in book.codes()
        for row in book.nvlink(code)
    ]
    units = ["Unit before R575", "Unit from R575"]
    heads = ["Xid", *units, "Severity", "Recovery", "Investigate", "Origin", "Local effect"]
    bits = [
        [f"{int(row.register)}", row.bit, row.meaning, "yes" if row.benign else "no", row.sentence]
        for row in book.registers.values()
    ]
    return [
        "# NVLink errors",
        "",
        MADE,
        "",
        "## Xid 144 to 150",
        "",
        *_table(heads, rows),
        "",
        "## Registers of Xid 74",
        "",
        *_table(["Register", "Bit", "Meaning", "Benign", "What it says"], bits),
        "",
        "## Recovery actions of Xid 154",
        "",
        *_table(
            ["Value", "Labels", "Level", "What it asks for"],
            [[row.value, ", ".join(row.labels), row.level, row.sentence] for row in book.recoveries],
        ),
    ]


def _faults() -> list[str]:
    profiles = ("default", "nvidia", "intent")
    rows = [
        [
            row.kind,
            row.scope,
            *(row.levels[name] for name in profiles),
            row.fault_class,
            "yes" if row.kind in SEEN_KINDS else "no",
            row.reason,
        ]
        for row in load().others.values()
    ]
    heads = ["Kind", "Scope", "default", "nvidia", "intent", "Class", "Seen today", "Why"]
    note = "Kinds that are not seen today come from sources that gpuward does not read yet; settings do not name them."
    return ["# Fault kinds that are no single Xid", "", MADE, "", note, "", *_table(heads, rows)]


def _rules() -> list[str]:
    book = load_rules()
    lines = ["# Rules", "", MADE, "", "Rules speak in this order; a later one sees what the earlier ones decided.", ""]
    rows = [
        [
            rule.id,
            _who(rule.subject),
            "" if rule.companion is None else f"{_who(rule.companion)}, same {' and '.join(rule.key)}",
            _window(rule.before_seconds, rule.after_seconds),
            rule.count if rule.companion is not None else "",
            effect(rule),
            sentence_of(rule),
            rule.source,
        ]
        for rule in book.rules
    ]
    heads = ["Rule", "About", "Needs", "Window", "Count", "Does", "Says", "Source"]
    gaps = [[row.id, _codes(row.codes) or "all", f"{row.gap_seconds:g} s", row.source] for row in book.identities]
    lines += _table(heads, rows)
    lines += ["", "## One fault", "", "Lines of one boot, GPU and code are one fault while no further apart than:", ""]
    return lines + _table(["Row", "Codes", "Gap", "Source"], gaps)


def _cases() -> list[str]:
    moves = [
        [move.state, _words(move.condition), move.to, ", ".join(move.effects), move.say, move.due, move.of]
        for move in MOVES
    ]
    about_all = (one_case_a_gpu, every_state_is_reachable, no_dead_ends)
    laws = [[law.__name__.replace("_", " "), law.__doc__] for law in (*STEP_LAWS, *about_all)]
    order = "The first row of a state that holds is taken. A person's release comes before all of them, in every state."
    return [
        *(
            "# Cases",
            "",
            MADE,
            "",
            "A case is one incident of one GPU and our work on it. The picture is the table. What cannot be done on a",
            f"server alone is left out there: {', '.join(sorted(ON_A_CLUSTER - ON_A_SERVER))}.",
            "",
        ),
        *("```mermaid", "stateDiagram-v2", *_picture(Of.GPU), "```", ""),
        *("On a cluster a node that stops answering is a case too, of the whole node:", ""),
        *("```mermaid", "stateDiagram-v2", *_picture(Of.NODE), "```", ""),
        *("## Moves", "", order, ""),
        *_table(["State", "When", "To", "Asks for", "Says", "Waits for a person to", "Cases of"], moves),
        *("", "## Laws", "", "Asked after every step. A step that breaks one is not taken: its case is parked.", ""),
        *_table(["Law", "It says"], laws),
        *("", "## What stands in the way of a reset", ""),
        *_table(["Then is due", "Source"], [[row.due, row.source] for row in OBSTACLES]),
        *("", "## What must hold after a reset", "", "Each of these parks the GPU again:", ""),
        *(f"- {sentence}" for _, sentence in PROOF),
        "- the user's check command, where there is one, does not end with 0",
    ]


def _preflight() -> list[str]:
    rows = [
        [row.id, "yes" if row.blocks else "no", _open(row.what), _open(row.why), _open(row.remedy), row.sure]
        for row in ROWS
    ]
    heads = ["Finding", "Blocks", "What", "Why it matters", "What to do", "Known by"]
    parts = [[part.role, ", ".join(part.named), part.without] for part in STACK]
    rivals = [[row.name, row.does, row.remedy, row.source] for row in RIVALS]
    return [
        *(
            "# Preflight",
            "",
            MADE,
            "",
            "What `gpuward preflight` looks for, in this order; what blocks comes first.",
            "",
        ),
        *_table(heads, rows),
        *("", "## The GPU stack", "", _IN_STACK, ""),
        *_table(["Part", "Its name contains", "Without it"], parts),
        *("", "## Kept off the node for a reset", "", "Each by a label of the node, which is put back afterwards.", ""),
        *_table(["Label", "Program", "Source"], [[one.gate, one.what, one.source] for one in CLIENTS]),
        *("", "## Others that act on nodes", ""),
        *_table(["Name", "It", "What to settle", "Source"], rivals),
    ]


def _open(sentence: str) -> str:
    """Return a sentence of a row with its open words in capitals."""
    return re.sub(r"\{(\w+)\}", lambda word: word[1].upper().replace("_", " "), sentence)


def _picture(of: Of) -> Iterator[str]:
    """Yield the moves between states, and which states there are only by a person's word."""
    moves = [move for move in MOVES if move.of in {of, Of.ANY}]
    yield f"    [*] --> {CaseState.SUSPECT}"
    for pair in dict.fromkeys((move.state, move.to) for move in moves if move.state is not move.to):
        whens = [_words(move.condition) for move in moves if (move.state, move.to) == pair]
        yield f"    {pair[0]} --> {pair[1]}: {', '.join(whens)}"
    yield from (f"    {state} --> [*]" for state in sorted(ENDED))


def _words(condition: Condition) -> str:
    return condition.__name__.replace("_", " ")


def _who(selector: Selector) -> str:
    parts = [_codes(selector.codes), ", ".join(sorted(selector.kinds))]
    if selector.not_codes:
        parts.append(f"not {_codes(selector.not_codes)}")
    parts += [f"{path} is {' or '.join(map(str, values))}" for path, values in selector.details.items()]
    parts += [f"no {name}" for name in sorted(selector.lacks)]
    if selector.solo:
        parts.append("with no known cause")
    if selector.user_record:
        parts.append("not written by the kernel")
    if selector.certain is False:
        parts.append("address without domain")
    return "; ".join(part for part in parts if part) or "every fault"


def _codes(codes: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(codes)))


def _window(before: float, after: float) -> str:
    parts = [f"{before:g} s before" if before else "", f"{after:g} s after" if after else ""]
    return ", ".join(part for part in parts if part)


def _table(heads: list[str], rows: Iterable[Sequence[object]]) -> list[str]:
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    return lines + [f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows]


def _cell(value: object) -> str:
    return "" if value is None else str(value).replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    sys.exit(main())
