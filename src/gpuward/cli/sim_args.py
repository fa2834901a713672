"""The words of `gpuward sim` on the command line."""

import argparse

from gpuward.cli.command_args import add_command
from gpuward.model.case import Mode

MOST_SEED = 10**18 - 1
MOST_NODES, MOST_GPUS, MOST_DAYS = 10_000, 16, 3650.0
_SIM = """\
Run a pretend fleet: the product's own controllers and agents, on pretend machines and a pretend cluster, in a pretend
time. GPUs fall ill, calls fail, machines are cut off, controllers are killed; all of it by the seed. Nothing outside
this process is touched, and no GPU or cluster is needed."""
_SIM_END = """\
The journal comes on standard output, one JSON object a line, with a line `truth` for whatever really happened; what it
came to, and how fast, on standard error. The same seed gives the same journal, byte for byte; --without
leaves a stroke out, and with it all that followed.

exit code: 0 no law was broken and nothing is left; 1 a law was broken, a GPU had a case for nothing, or a mark is left;
2 wrong usage; 3 the output could not be written.

examples:
  gpuward sim run --seed 7
  gpuward sim run --seed 7 --nodes 64 --days 30
  gpuward sim run --seed 7 --without 3"""


def add_sim(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to a parser."""
    sim = add_command(commands, "sim", brief="run a pretend fleet", text=_SIM, end=_SIM_END)
    sim.add_argument("act", metavar="run", choices=["run"], help="what to do: run")
    sim.add_argument("--seed", metavar="N", type=_seed, default=1, help="what fixes everything (default: 1)")
    sim.add_argument("--nodes", metavar="N", type=_nodes, default=16, help="how many nodes (default: 16)")
    sim.add_argument("--gpus", metavar="N", type=_gpus, default=8, help="how many GPUs each has (default: 8)")
    sim.add_argument("--days", metavar="N", type=_days, default=1.0, help="how many days (default: 1)")
    sim.add_argument(
        "--mode",
        choices=[str(mode) for mode in Mode],
        default=str(Mode.REPAIR),
        help="how far the controllers go (default: repair)",
    )
    sim.add_argument(
        "--without",
        metavar="N",
        type=_stroke,
        action="append",
        default=[],
        help="leave out the stroke of this number, as `rule` of its line truth has it; may be given again",
    )


def _seed(text: str) -> int:
    return _whole(text, 0, MOST_SEED)


def _stroke(text: str) -> int:
    return _whole(text, 1, MOST_SEED)


def _nodes(text: str) -> int:
    return _whole(text, 1, MOST_NODES)


def _gpus(text: str) -> int:
    return _whole(text, 1, MOST_GPUS)


def _whole(text: str, least: int, most: int) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and least <= int(text) <= most):  # noqa: PLR2004
        raise argparse.ArgumentTypeError(f"must be a whole number, {least} to {most}")
    return int(text)


def _days(text: str) -> float:
    try:
        days = float(text)
    except ValueError:
        days = 0.0
    if not 0 < days <= MOST_DAYS:
        raise argparse.ArgumentTypeError(f"must be a number of days, more than 0 and at most {MOST_DAYS:g}")
    return days
