"""The words of `gpuward qualify` on the command line, apart from the command so that a parser costs nothing else."""

from typing import TYPE_CHECKING

from gpuward.cli.command_args import add_command

if TYPE_CHECKING:
    import argparse

_TEXT = """\
Find out on an idle card whether draining and resetting work here as gpuward believes: it is drained, looked for,
drained again, let on, reset and proven, and each belief is told true or false. Until that was seen on a model with a
driver, the agent resets none of them by itself. The GPU must hold no work; keep new work off it meanwhile (cordon the
node). Known services that hold it are stopped and started again."""
_END = """\
Whatever happens, everything is put back: what is changed is written to qualifying.json in the state folder first, and
what a killed qualify left is undone by the next one or by the next agent. The result goes to qualified.json, by model
and driver. No agent may run with this state folder: stop it first.

exit code: 0 qualified; 1 not qualified; 2 wrong usage, or nobody to ask and no --yes; 3 it could not be done, and
nothing of it is kept.

examples:
  gpuward qualify 3
  gpuward qualify 0000:44:00 --yes --json"""


def add_qualify(commands: "argparse._SubParsersAction[argparse.ArgumentParser]", *, state_dir: str) -> None:
    """Add the command to a parser. `state_dir` is the state folder where none is named."""
    qualify = add_command(
        commands, "qualify", brief="prove on an idle GPU that drain and reset work here", text=_TEXT, end=_END
    )
    qualify.add_argument("gpu", metavar="GPU", help="an idle GPU by number, address or UUID")
    qualify.add_argument(
        "--state-dir", metavar="DIR", default=state_dir, help=f"the agent's state folder (default: {state_dir})"
    )
    qualify.add_argument("--yes", action="store_true", help="do not ask")
    qualify.add_argument("--json", action="store_true", help="the result as one JSON object, at the end")
    for name in ("proc", "dev", "sys"):
        qualify.add_argument(
            f"--{name}-root", metavar="DIR", default=f"/{name}", help=f"where /{name} is mounted (default: /{name})"
        )
