"""What people may ask of a running agent: `status`, `why`, `release`, `retry`, and how the answers look."""

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from gpuward.agent.board import board_object
from gpuward.agent.standalone import Standalone
from gpuward.cli import wiring
from gpuward.cli.objects import dumps
from gpuward.cli.times import as_shown
from gpuward.isolation.kernel.text import shown
from gpuward.model.case import ENDED, Mode, Order
from gpuward.ports import Refused

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
        case other:
            raise Refused(f"this agent does not know {other!r}; is the command of another version?")


def _why(standalone: Standalone, happenings: Happenings, name: str) -> Mapping[str, Any]:
    board = standalone.board()
    case = board.case_of(name)
    if case is None:
        raise Refused(f"{name!r} names no case and no GPU with one; `gpuward status` lists them")
    told = [one for one in happenings() if one.get("case") == case.id or _is_of(one, case.gpu, case.opened_at)]
    return {"case": case.id, "gpu": case.gpu, "state": str(case.state), "due": case.due, "happenings": told}


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
    for one in open_cases:
        standalone.order(one.gpu, order)
    return {"ordered": str(order), "gpus": [one.gpu for one in open_cases]}


# --- the commands -------------------------------------------------------------------------------------------------


def status(asked: argparse.Namespace) -> int:
    """Say how the agent and each GPU are; 1 when a GPU is not active."""
    board = wiring.ask_agent(asked.state_dir, {"ask": "status"})
    return show_board(board, as_json=asked.json)


def why(asked: argparse.Namespace) -> int:
    """Tell the whole story of a case."""
    story = wiring.ask_agent(asked.state_dir, {"ask": "why", "name": asked.name})
    _print(story, _story(story), as_json=asked.json)
    return 0


def release(asked: argparse.Namespace) -> int:
    """Give a person's word: undo every mark, close the case."""
    return _say_order(asked, "release", "every mark is being undone")


def retry(asked: argparse.Namespace) -> int:
    """Give a person's word: try the repair of a parked case again."""
    return _say_order(asked, "retry", "the repair is tried again, if the mode is repair and the case was parked")


def _say_order(asked: argparse.Namespace, order: str, then: str) -> int:
    everything = getattr(asked, "all", False)
    if everything and asked.name is not None:
        raise wiring.UsageError(f"say {asked.name} or --all, not both")
    if not everything and asked.name is None:
        raise wiring.UsageError("say which: a GPU (number, address, UUID), a case, or --all")
    heard = wiring.ask_agent(asked.state_dir, {"ask": order, "name": asked.name, "all": everything})
    gpus = ", ".join(heard["gpus"])
    _print(heard, [f"heard for GPU {gpus}: {then}; `gpuward status` shows when"], as_json=asked.json)
    return 0


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
    if board["driver_trouble"]:
        yield board["driver_trouble"]
    if not board["gpus"]:
        yield "no GPU is seen; that is unknown, not healthy"
    for gpu in board["gpus"]:
        level = f", {gpu['level']} {gpu['class']}" if gpu["level"] else ""
        yield f"GPU {gpu['gpu']} {gpu['pci']} {gpu['state']}{level}"
        if gpu["case"] is None:
            continue
        holders = "not known" if gpu["holders"] is None else ", ".join(gpu["holders"]) or "none"
        yield f"    case    {gpu['case']}, {gpu['case_state']} since {as_shown(gpu['since'], wiring.zone(None))}"
        yield f"    why     {gpu['because']}"
        yield f"    work    {holders}"
        yield f"    next    {gpu['next']}"
        yield f"    undo    {gpu['undo']}"


def _story(story: Mapping[str, Any]) -> Iterator[str]:
    zone = wiring.zone(None)
    yield f"case {story['case']} of GPU {story['gpu']}: {story['state']}"
    for one in story["happenings"]:
        told = _TOLD.get(one.get("what", ""), ("{what}",))
        stamp = as_shown(one.get("at"), zone)
        for number, line in enumerate(told):
            yield f"{stamp if number == 0 else ' ' * len(stamp)}  {line.format_map(_Blank(one))}"
    if story["due"]:
        yield f"due: {story['due']}"


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
