"""The words of `gpuward controller` on the command line, and those of every command that works in a cluster."""

import argparse
import re

from gpuward.cli.command_args import add_command
from gpuward.model.case import Mode
from gpuward.model.resource import OWN_NAMESPACE

_WHOLE = re.compile(r"[0-9]{1,9}", re.ASCII)
MOST_LEASE_SECONDS = 600
MOST_PORT = 65_535
_CONTROLLER = """\
Follow the faults that the agents of a cluster tell, and take sick nodes out of service: taint, promote a standby,
evict, have the agents repair, prove, return. Several may run: one leads, by a Lease. How far it goes is --mode."""
_CONTROLLER_END = """\
exit code: 0 ended by a signal; 2 wrong usage or settings; 3 the cluster cannot be reached that way.

examples:
  gpuward controller --kubeconfig ~/.kube/config
  gpuward controller --mode isolate"""


def add_kubeconfig(command: argparse.ArgumentParser) -> None:
    """Add how a cluster is reached, and where gpuward's own objects are in it."""
    command.add_argument(
        "--kubeconfig", metavar="FILE", help="how to reach the cluster (default: as a pod of it, by its own account)"
    )
    add_namespace(command)


def add_namespace(command: argparse.ArgumentParser, said: str = "gpuward's own namespace") -> None:
    """Add where gpuward's own objects are."""
    command.add_argument(
        "--namespace", metavar="NAME", default=OWN_NAMESPACE, help=f"{said} (default: {OWN_NAMESPACE})"
    )


def add_controller(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to a parser."""
    controller = add_command(
        commands, "controller", brief="the loop of a cluster", text=_CONTROLLER, end=_CONTROLLER_END
    )
    add_kubeconfig(controller)
    controller.add_argument(
        "--mode",
        choices=[str(mode) for mode in Mode],
        help="how far it goes, agents included (default: the settings', else observe)",
    )
    controller.add_argument(
        "--lease-seconds",
        metavar="SECONDS",
        type=_whole_seconds,
        default=15,
        help="how long a leader that is silent counts as one (default: 15)",
    )
    controller.add_argument(
        "--metrics-port",
        metavar="PORT",
        type=_port,
        default=0,
        help="serve /metrics, /healthz and /readyz there (default: nowhere)",
    )
    controller.add_argument("--config", metavar="FILE", help="settings (default: /etc/gpuward/gpuward.toml if there)")
    controller.add_argument("--json", action="store_true", help="one JSON object a happening")


def _whole_seconds(text: str) -> int:
    if not (_WHOLE.fullmatch(text) and 1 <= int(text) <= MOST_LEASE_SECONDS):
        raise argparse.ArgumentTypeError(f"must be a whole number of seconds, 1 to {MOST_LEASE_SECONDS}")
    return int(text)


def _port(text: str) -> int:
    if not (_WHOLE.fullmatch(text) and int(text) <= MOST_PORT):
        raise argparse.ArgumentTypeError(f"must be a port, 1 to {MOST_PORT}, or 0 for none")
    return int(text)
