"""What people may ask of a running agent: `status`, `why`, `release`, `retry`, and how the answers look."""

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import tzinfo
from typing import Any

from gpuward.agent.board import board_object
from gpuward.agent.outfit import Ordered
from gpuward.agent.standalone import Standalone
from gpuward.cli import wiring
from gpuward.cli.objects import dumps
from gpuward.cli.times import as_shown
from gpuward.cli.voice import warn
from gpuward.cli.wiring.whom import Whom, whom
from gpuward.isolation.decide import acts
from gpuward.isolation.kernel.text import shown
from gpuward.isolation.lost import obstacle_in_a_drill
from gpuward.isolation.plan import plan_of
from gpuward.model.case import ENDED, Mode, Order
from gpuward.model.counted import many
from gpuward.ports import Refused, Unreachable

Happenings = Callable[[], list[dict[str, Any]]]


def answer(standalone: Standalone, happenings: Happenings, request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the agent's answer to a request from the door. Raises Refused with a sentence."""
    match request.get("ask"):
        case "status":
            return board_object(standalone.board())
        case "why":
            return _why(standalone, happenings, str(request.get("name", "")))
        case "release":
            return _order(standalone, request, Order.RELEASE)
        case "retry":
            mode = standalone.board().mode
            if mode is not Mode.REPAIR:
                raise Refused(f"the agent is in mode {mode}: start it with --mode repair, then retry")
            return _order(standalone, request, Order.RETRY)
        case "drill":
            return _drill(standalone, request)
        case other:
            raise Refused(f"this agent does not know {other!r}; is the command of another version?")


def _why(standalone: Standalone, happenings: Happenings, name: str) -> Mapping[str, Any]:
    board = standalone.board()
    case = board.case_of(name)
    if case is None and board.gpu_named(name) is not None:
        raise Refused(f"GPU {name} has no case, and had none that is still remembered")
    if case is None:
        raise Refused(f"{name!r} names no case and no GPU; `gpuward status` lists them")
    told = [one for one in happenings() if one.get("case") == case.id or _is_of(one, case.gpu, case.opened_at)]
    obstacle = obstacle_in_a_drill(case) or board.obstacles.get(case.gpu, "")
    plan = plan_of(case, case.drill or board.mode, obstacle=obstacle)
    return {
        "case": case.id,
        "gpu": case.gpu,
        "state": str(case.state),
        "due": case.due,
        "plan": list(plan),
        "happenings": told,
    }


def _is_of(happening: Mapping[str, Any], gpu: str, opened_at: float) -> bool:
    """Return whether this is a line of the GPU's that came right before its case was opened, or later."""
    return happening.get("gpu") == gpu and "case" not in happening and happening.get("at", 0.0) >= opened_at - 60


def _order(standalone: Standalone, request: Mapping[str, Any], order: Order) -> Mapping[str, Any]:
    board = standalone.board()
    open_cases = [case for case in board.cases if case.state not in ENDED]
    if request.get("all") is not True:
        case = board.case_of(str(request.get("name", "")))
        open_cases = [one for one in open_cases if case is not None and one.gpu == case.gpu]
    if not open_cases:
        raise Refused("there is no open case of that name; `gpuward status` lists them")
    forced = request.get("force") is True
    for one in open_cases:
        standalone.order(Ordered(one.gpu, order, forced=forced))
    return {"ordered": str(order), "gpus": [one.gpu for one in open_cases]}


def _drill(standalone: Standalone, request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Let a made-up fault be dealt with; a GPU with a case of its own has no time for it."""
    board = standalone.board()
    name, code, mode = request.get("name"), request.get("code"), request.get("mode")
    gpu = board.gpu_named(str(name))
    if gpu is None:
        raise Refused(f"{name!r} names no GPU; `gpuward status` lists them")
    if not isinstance(code, int) or mode not in {None, *Mode}:
        raise Refused("a drill needs the number of an Xid, and one of the modes; is the command of another version?")
    busy = next((case for case in board.cases if case.gpu == gpu and case.state not in ENDED), None)
    if busy is not None:
        raise Refused(f"GPU {gpu} has a case, {busy.id}: a drill waits until it has ended, or takes another GPU")
    fault = standalone.drill(code, gpu, None if mode is None else Mode(mode))
    if fault is None:
        raise Refused(f"no row of the book takes Xid {code} for a fault; `gpuward explain --list` names them")
    verdict = fault.verdict
    case = f"c-{fault.id}" if acts(fault) else None
    return {"case": case, "gpu": gpu, "level": str(verdict.level), "because": verdict.because}


# --- the commands -------------------------------------------------------------------------------------------------


def status(asked: argparse.Namespace) -> int:
    """Say how the agent and each GPU are; 1 when a GPU is not active."""
    one = whom_of(asked)
    if one.state_dir is None:
        return on_cluster(asked)
    board = ask(one, {"ask": "status"})
    with understood():
        return show_board(board, as_json=asked.json)


def why(asked: argparse.Namespace) -> int:
    """Tell the whole story of a case."""
    one = whom_of(asked)
    if one.state_dir is None:
        return on_cluster(asked)
    if asked.ticket:
        raise wiring.UsageError("a ticket is told of a case of a cluster; without --ticket the agent tells the story")
    story = ask(one, {"ask": "why", "name": asked.name})
    with understood():
        _print(story, _story(story), as_json=asked.json)
    return 0


def release(asked: argparse.Namespace) -> int:
    """Give a person's word: undo every mark, close the case."""
    return _say_order(asked, "release", "every mark is being undone")


def retry(asked: argparse.Namespace) -> int:
    """Give a person's word: try the repair of a parked case again."""
    return _say_order(asked, "retry", "the repair is tried again, if the mode is repair and the case was parked")


def cases(asked: argparse.Namespace) -> int:
    """List the cases of a cluster."""
    return on_cluster(asked)


def nodes(asked: argparse.Namespace) -> int:
    """List the GPU servers of a cluster."""
    return on_cluster(asked)


def report(asked: argparse.Namespace) -> int:
    """Tell what came of the faults of a cluster."""
    return on_cluster(asked)


def approve(asked: argparse.Namespace) -> int:
    """Let a case of a cluster go ahead."""
    return on_cluster(asked)


def off(asked: argparse.Namespace) -> int:
    """Say that the node of a case of a cluster is off."""
    return on_cluster(asked)


def pause(asked: argparse.Namespace) -> int:
    """Let nothing new be isolated on a cluster."""
    return on_cluster(asked)


def resume(asked: argparse.Namespace) -> int:
    """Let the fleet of a cluster go on."""
    return on_cluster(asked)


def whom_of(asked: argparse.Namespace) -> Whom:
    """Return whom a command asks, and say which of two was taken."""
    one = whom(asked)
    if one.note:
        warn(f"{asked.command}: {one.note}")
    return one


def ask(one: Whom, request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Ask the agent of this server. Raises EdgeError."""
    try:
        return wiring.ask_agent(str(one.state_dir), request)
    except Unreachable as error:
        if not one.guessed:
            raise
        raise Unreachable(f"{error} A cluster is asked with --kubeconfig FILE, or where KUBECONFIG is set") from error


def on_cluster(asked: argparse.Namespace) -> int:
    """Run the command on a cluster."""
    from gpuward.cli.fleet.commands import run  # noqa: PLC0415  the agent of one server needs none of a cluster's code

    return run(asked)


def _say_order(asked: argparse.Namespace, order: str, then: str) -> int:
    one = whom_of(asked)
    everything = getattr(asked, "all", False)
    if one.state_dir is None and everything:
        raise wiring.UsageError("--all is for the agent of one server; on a cluster name a case, or a node")
    if one.state_dir is None:
        return on_cluster(asked)
    if everything and asked.name is not None:
        raise wiring.UsageError(f"say {asked.name} or --all, not both")
    if not everything and asked.name is None:
        more = "a case, or --all" if hasattr(asked, "all") else "or a case"
        raise wiring.UsageError(f"say which: a GPU (number, address, UUID), {more}")
    if asked.by or asked.because:
        raise wiring.UsageError("--by and --because are kept with an order on a cluster; an agent alone keeps neither")
    request = {"ask": order, "name": asked.name, "all": everything, "force": getattr(asked, "force", False)}
    heard = ask(one, request)
    with understood():
        gpus = ", ".join(heard["gpus"])
    _print(heard, [f"heard for GPU {gpus}: {then}; `gpuward status` shows when"], as_json=asked.json)
    return 0


@contextmanager
def understood() -> Iterator[None]:
    """Let the body read an agent's answer; one that is of another shape is told so. Raises Unreachable."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise Unreachable(
            f"the agent's answer is not understood ({error!r}); is it of another version than this command?"
        ) from error


def show_board(board: Mapping[str, Any], *, as_json: bool) -> int:
    """Print a board; return 0 when GPUs are seen and all are active, else 1."""
    _print(board, board_text(board), as_json=as_json)
    return 0 if board["gpus"] and all(gpu["state"] == "active" for gpu in board["gpus"]) else 1


def _print(value: Mapping[str, Any], lines: Iterable[str], *, as_json: bool) -> None:
    sys.stdout.write(f"{dumps(value)}\n" if as_json else "".join(f"{shown(line)}\n" for line in lines))


def board_text(board: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a board for a person."""
    road = board["road"] or "nothing: the GPUs could not be read"
    yield f"node {board['node']}, mode {board['mode']}, GPUs read by {road}, driver {board['driver_version'] or '-'}"
    yield from _log_lines(board["log"])
    if board["driver_trouble"]:
        yield board["driver_trouble"]
    if not board["gpus"]:
        yield "no GPU is seen; that is unknown, not healthy"
    for gpu in board["gpus"]:
        level = f", {gpu['level']} {gpu['class']}" if gpu["level"] else ""
        yield f"GPU {gpu['gpu']} {gpu['pci']} {gpu['state']}{level}"
        if gpu["drill"] is not None:
            yield f"    drill   {gpu['drill']}: nothing on the GPU is changed by it"
        for finding in gpu["findings"]:
            yield f"    reading {finding['level']} {finding['because']}"
        if gpu["case"] is None:
            continue
        holders = "not known" if gpu["holders"] is None else ", ".join(gpu["holders"]) or "none"
        yield f"    case    {gpu['case']}, {gpu['case_state']} since {as_shown(gpu['since'], wiring.zone(None))}"
        yield f"    why     {gpu['because']}"
        yield f"    work    {holders}"
        yield f"    next    {gpu['next']}"
        yield f"    undo    {gpu['undo']}"


def _log_lines(log: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield how far the kernel log was read, and what could not be."""
    if log is None:
        return
    newest = (
        "no line yet" if log["newest_at"] is None else f"newest line {as_shown(log['newest_at'], wiring.zone(None))}"
    )
    yield f"log {log['source']}, read up to {log['cursor'] or 'its start'}, {newest}"
    if log["gaps"]:
        lost = many(log["lines_lost"], "line")
        yield f"    {many(log['gaps'], 'gap')}, {lost} known to be lost; the newest: {log['newest_gap']}"


def _story(story: Mapping[str, Any]) -> Iterator[str]:
    zone = wiring.zone(None)
    yield f"case {story['case']} of GPU {story['gpu']}: {story['state']}"
    yield f"plan: {', '.join(story['plan']) or 'nothing is done in this mode'}"
    for one in story["happenings"]:
        yield from story_lines(one, zone)
    if story["due"]:
        yield f"due: {story['due']}"


def story_lines(happening: Mapping[str, Any], zone: tzinfo) -> Iterator[str]:
    """Yield the lines of a happening in a story."""
    told = _TOLD.get(happening.get("what", ""), ("{what}",))
    stamp = as_shown(happening.get("at"), zone)
    for number, line in enumerate(told):
        yield f"{stamp if number == 0 else ' ' * len(stamp)}  {line.format_map(_Blank(happening))}".rstrip()


class _Blank(dict[str, Any]):
    """A happening whose unused fields are empty."""

    def __missing__(self, _name: str) -> str:
        return ""


_TOLD = {
    "observed": ("line     {because}", "rows     {rule} -> {outcome}"),
    "verdict": ("verdict  {because}",),
    "moved": ("moved    {from} -> {to}: {because}",),
    "effect": ("effect   {effect} {outcome} {because}",),
    "law": ("law      {rule}",),
    "said": ("said     {because}",),
}
"""How a person reads what happened, by its sort; a second line stands under the first."""
