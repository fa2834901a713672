"""The fleet as a person reads it: its state, its nodes, its cases. Nothing is chosen here but words and columns."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import tzinfo

from gpuward.cli.fleet.next_steps import next_of
from gpuward.cli.fleet.values import NO_AGENT, modes_of, state_of, undo_of
from gpuward.cli.times import age, as_shown, with_zone
from gpuward.controller.desk.glance import ACTIVE, CaseGlance, NodeGlance
from gpuward.controller.desk.reading import Board, Indices, indices_of, lacks
from gpuward.isolation.kernel.text import shown
from gpuward.model.counted import many

MOST_NAMED = 8
"""So many names stand in a line before the rest is counted."""
_LOUD = re.compile(r"\b(?:P0|PAUSED|NOBODY LEADS|SHORT|MISSING|parked|silent|failed|refused)\b|^FAILED\b")
_LESS = re.compile(r"\b(?:P1)\b")


@dataclass(frozen=True, slots=True)
class Look:
    """How a person reads: his zone, and the time now."""

    zone: tzinfo
    now: float

    def since(self, at: float | None) -> str:
        """Return a moment with its zone and how long ago it was."""
        return "no known time" if at is None else f"{with_zone(at, self.zone)} ({age(self.now - at)} ago)"


def board_lines(board: Board, look: Look) -> Iterator[str]:
    """Yield the state of the fleet, what is amiss first."""
    yield from _who_leads(board, look)
    if board.pause.on:
        yield f"PAUSED  nothing new is isolated: {board.pause.sentence}"
    modes = ", ".join(f"{mode} on {count}" for mode, count in modes_of(board.nodes).items())
    yield f"mode    {modes or 'none: no agent has told of a node'}"
    yield f"nodes   {_nodes(board)}"
    yield f"GPUs    {_gpus(board)}"
    yield from _agentless(board)
    yield from _silent(board, look)
    yield from _held(board)
    yield from _pools(board)
    yield from (f"unknown {trouble}" for trouble in board.troubles)
    yield from _open_cases(board, look)


def _who_leads(board: Board, look: Look) -> Iterator[str]:
    leader = board.leader
    if not board.has_leases:
        return
    if leader is None or not leader.holder:
        yield "leader  NOBODY LEADS: nothing is decided; see whether the Deployment gpuward-controller runs"
    elif not board.leads:
        yield (
            f"leader  NOBODY LEADS: {leader.holder} is silent since {look.since(leader.renewed)}; nothing is decided; "
            "see whether the Deployment gpuward-controller runs"
        )
    else:
        yield f"leader  {leader.holder} since {look.since(leader.since)}"


def _nodes(board: Board) -> str:
    untold = [node.name for node in board.nodes if not node.told]
    more = f"; of {names(untold)} no agent has told anything" if untold else ""
    count = len(board.nodes) + len(board.agentless or ())
    return f"{count}{more}" if count else "none: no agent has told of a GPU server yet"


def _gpus(board: Board) -> str:
    return gpus_in_words(board.states) if board.states else "none is seen; that is unknown, not healthy"


def gpus_in_words(states: Counter[str]) -> str:
    """Return how many GPUs are in which state."""
    others = "".join(f", {count} {state}" for state, count in sorted(states.items()) if state != ACTIVE)
    return f"{states[ACTIVE]} of {states.total()} active{others}"


def _agentless(board: Board) -> Iterator[str]:
    lacking = board.agentless
    if lacking:
        where = f"{many(len(lacking), 'node')} with GPUs, where none ever ran: {names(lacking)}"
        yield f"agents  MISSING on {where}; `gpuward preflight` says what to do"


def _silent(board: Board, look: Look) -> Iterator[str]:
    silent = board.silent
    if silent:
        said = [name if since is None else f"{name} for {age(look.now - since)}" for name, since in silent]
        yield f"silent  {many(len(silent), 'agent')}: {names(said)}; what is told of their GPUs may be old"


def _held(board: Board) -> Iterator[str]:
    reasons: dict[str, list[str]] = {}
    for node in board.nodes:
        if node.held and not board.pause.on:
            reasons.setdefault(node.held, []).append(node.name)
    for because, held in reasons.items():
        yield f"held    {names(held)}: {because}"


def _pools(board: Board) -> Iterator[str]:
    for pool in board.pools:
        ready = 0 if pool.status is None else len(pool.status.ready)
        short = lacks(pool)
        because = "" if pool.status is None or not pool.status.because else f": {pool.status.because}"
        word = f", SHORT of {short}{because}" if short else ""
        yield f"standby {pool.head.name} ({pool.spec.shape.product}): {ready} of {pool.spec.size} ready{word}"


def _open_cases(board: Board, look: Look) -> Iterator[str]:
    indices = indices_of(board.nodes)
    yield f"cases   {len(board.cases)} open" if board.cases else "cases   none open"
    for case in sorted(board.cases, key=_urgency):
        drill = f", drill of {case.drill}" if case.drill else ""
        yield (
            f"{case.name}  {case.level} {case.state}{drill}  "
            f"{place_of(case, indices.get((case.node, case.gpu)))}  since {look.since(case.since)}"
        )
        yield f"        what  {case.title} ({case.fault_class})"
        yield f"        why   {case.because}"
        yield f"        next  {next_of(case)}"
        if case.standby:
            yield f"        spare {case.standby}"
        if case.passed_over:
            yield f"        told  {case.passed_over}"
        if case.unheard:
            yield f"        order {case.unheard} of people not heard yet"
        yield f"        undo  {undo_of(case)}"


def _urgency(case: CaseGlance) -> tuple[bool, str, float]:
    return bool(case.drill), case.level, case.since or 0.0


def place_of(case: CaseGlance, index: int | None) -> str:
    """Return where a case is, in words."""
    return f"{case.node} GPU {_gpu_of(case, index)}" if case.gpu else case.node


def _gpu_of(case: CaseGlance, index: int | None) -> str:
    return case.gpu if index is None else f"{index} ({case.gpu})"


def case_lines(cases: Sequence[CaseGlance], look: Look, *, indices: Indices, ended: bool) -> Iterator[str]:
    """Yield the cases as a table."""
    if not cases:
        yield "there is no case" if ended else "there is no open case; `--all` lists those that have ended too"
        return
    heads = ("CASE", "NODE", "GPU", "LEVEL", "STATE", "CLASS", f"SINCE ({_zone_word(look)})", "AGE", "WHAT", "NEXT")
    rows = [
        (
            case.name,
            case.node,
            _gpu_of(case, indices.get((case.node, case.gpu))) or "-",
            case.level,
            case.state,
            case.fault_class,
            as_shown(case.since, look.zone),
            "-" if case.opened_at is None else age(look.now - case.opened_at),
            ("drill: " if case.drill else "") + case.title,
            next_of(case),
        )
        for case in cases
    ]
    yield from table(heads, rows)
    yield from (f"{case.name}: {case.passed_over}" for case in cases if case.passed_over and case.is_open)


def node_lines(board: Board, look: Look) -> Iterator[str]:
    """Yield the nodes as a table."""
    lacking = board.agentless or ()
    if not board.nodes and not lacking:
        yield "there is no GPU node: no agent has told of one yet"
        yield from (f"unknown {trouble}" for trouble in board.troubles)
        return
    heads = ("NODE", "GPUS", "MODE", "CASES", "AGENT", "DRIVER", "HEARD", "TROUBLE")
    without = [(name, NO_AGENT, "-", "0", "-", "-", "never", "no agent ever ran there") for name in lacking]
    yield from table(heads, [*(_node_row(node, board, look) for node in board.nodes), *without])
    yield from (f"unknown {trouble}" for trouble in board.troubles)


def _node_row(node: NodeGlance, board: Board, look: Look) -> tuple[str, ...]:
    lease = board.agents.get(node.name)
    heard = "never" if lease is None or lease.renewed is None else f"{age(look.now - lease.renewed)} ago"
    mode = node.wanted or "-"
    return (
        node.name,
        gpus_in_words(Counter(gpu.state for gpu in node.gpus))
        if node.gpus
        else "none seen"
        if node.told
        else "nothing told",
        mode if node.mode in {"", node.wanted} else f"{mode} (agent: {node.mode})",
        str(sum(case.node == node.name for case in board.cases)),
        node.agent or "-",
        node.driver or "-",
        f"silent: {heard}" if state_of(node.name, board) == "silent" else heard,
        node.trouble or node.held or "-",
    )


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield rows under their heads in columns; the last column is as wide as it is."""
    cells = [[shown(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    widths[-1] = 0
    yield "  ".join(head.ljust(width) for head, width in zip(heads, widths, strict=True)).rstrip()
    for row in cells:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def names(all_of_them: Iterable[str], most: int = MOST_NAMED) -> str:
    """Return names in a line; of very many the first, and how many more there are."""
    listed = list(all_of_them)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more


def _zone_word(look: Look) -> str:
    return with_zone(look.now, look.zone).rpartition(" ")[2]


def painted(line: str) -> str:
    """Return a line for a terminal with colours: what is loud in red, the next in yellow."""
    return _LESS.sub("\x1b[33m\\g<0>\x1b[0m", _LOUD.sub("\x1b[1;31m\\g<0>\x1b[0m", line))
